/* Compress, decompress and filter on all processors that a program gives: a C ABI, and below it a
 * thin interface for C++. Implements the operators of the co-processing paper (sections 3.4 and
 * 4.2): host and agent CPUs share one operation, chunk by chunk; the output is one stream that
 * every usual decoder reads.
 *
 *   pulse_ops *ops;
 *   pulse_ops_request request;
 *   pulse_ops_result result;
 *   char why[256];
 *   if (pulse_ops_open(NULL, &ops, why, sizeof why) != PULSE_OPS_OK) ...
 *   pulse_ops_request_init(&request);
 *   request.operation = PULSE_OPS_COMPRESS;
 *   request.in = data;
 *   request.in_size = size;
 *   pulse_ops_result_init(&result);
 *   if (pulse_ops_run(ops, &request, &result) != PULSE_OPS_OK) puts(result.message);
 *   ... result.data, result.size ...
 *   pulse_ops_release(&result);
 *   pulse_ops_close(ops);
 *
 * examples/ops_example.c and ops_example.cc are whole programs. Link with -lpulse-ops. C99, C++20.
 *
 * There are three ways to have a request done:
 *
 *   run: one large input, on all processors; blocks until it is done.
 *
 *   submit: many small inputs at the same time (a batch), each by one processor. Their results come
 *   by pulse_ops_wait, by a callback, or in C++ by a future.
 *
 *   stream: input that comes piece by piece, on all processors.
 *
 * Threads. A pulse_ops object and a set of rules serve any number of threads at once; a stream is
 * for one thread at a time. No call may be made in a child process after fork. Functions that the
 * program gives are called from threads of the library (of run: perhaps from the calling one), one
 * call at a time for each request; they may not throw, and may not call the library for the same
 * stream, nor pulse_ops_close.
 *
 * Memory. What the caller passes stays the caller's, and has to stay as it is until the request is
 * done; the request itself is copied. Results have memory of the library's: pulse_ops_release.
 *
 * Structs begin with their size. A program built with an older header works with a newer library:
 * members beyond what it knows count as zero. Members that this library does not know have to be
 * zero, else the call is PULSE_OPS_INVALID. Numbers do not change their meaning.
 */
#ifndef PULSE_OPS_H_
#define PULSE_OPS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define PULSE_OPS_API __attribute__((visibility("default")))
#else
#define PULSE_OPS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulse_ops pulse_ops;
typedef struct pulse_ops_rules pulse_ops_rules;
typedef struct pulse_ops_stream pulse_ops_stream;

/* What a call, or a result, says. */
enum {
  PULSE_OPS_OK = 0,
  PULSE_OPS_INVALID = 1, /* an argument makes no sense; nothing was done */
  PULSE_OPS_IO = 2,      /* reading or writing failed: a descriptor's, or the program's functions;
                          * or no agent is there, or it was lost */
  PULSE_OPS_DAMAGED = 3, /* the input is damaged or cut off; result.error_offset says where */
  PULSE_OPS_NOT_COMPRESSED = 4, /* decompress: the input is in none of the formats */
  PULSE_OPS_TOO_LARGE = 5,      /* more output than max_output, a record longer than max_record, or
                                 * compressed input of more data than max_decompressed, or of zstd
                                 * with a window of more than 128 MiB */
  PULSE_OPS_CANCELLED = 6,      /* progress said so, or the stream was aborted */
  PULSE_OPS_BUSY = 7,           /* submit: as much is under way as may be; take results first */
  PULSE_OPS_TIMEOUT = 8,        /* wait: nothing was done in time */
  PULSE_OPS_NOTHING = 9,        /* wait: nothing is under way */
  PULSE_OPS_FAILED = 10 /* the system refused memory or threads, the input is zstd that needs a
                         * dictionary, or a fault of the library */
};

/* A few words for a code; never NULL. Any thread. */
PULSE_OPS_API const char* pulse_ops_text(int code);

/* --- The processors. */
typedef struct pulse_ops_options {
  size_t struct_size;
  const char* cpus;       /* the host's, as "0,2-3"; NULL: all that the process may use */
  const char* agent_cpus; /* the agent's, which stand for a card's; NULL: none */
  const char* placement;  /* "host", "agent", "split=PERCENT", "auto" or "paper"; NULL: "auto" */
  size_t most_under_way; /* requests that are submitted and whose results were not taken; 0: 1024 */
  /* The socket of an agent (pulse agent --ops), which shares the work of all requests; NULL: none.
   * Not together with agent_cpus. An agent that is lost later costs time only; without CPUs of the
   * host (placement "agent" and no cpus) requests then fail with PULSE_OPS_IO. */
  const char* agent;
} pulse_ops_options;

/* `options`: NULL for the default of each. `why`, if it is not NULL, is given a line of at most
 * `why_size` bytes about what is wrong. Blocks for the answer of an agent, and only then; threads
 * start with the first submit. */
PULSE_OPS_API int pulse_ops_open(const pulse_ops_options* options, pulse_ops** ops, char* why,
                                 size_t why_size);
/* Waits for what is under way; results that nobody took are released. Streams and runs have to be
 * over. NULL is ignored. */
PULSE_OPS_API void pulse_ops_close(pulse_ops* ops);

/* --- Requests. */
enum { PULSE_OPS_COMPRESS = 1, PULSE_OPS_DECOMPRESS = 2, PULSE_OPS_FILTER = 3 };

/* Of compress: what is written, gzip if 0. Of filter: the output is compressed so; plain if 0. Of
 * decompress: 0, since the input says it. */
enum {
  PULSE_OPS_GZIP = 1,
  PULSE_OPS_ZLIB = 2,
  PULSE_OPS_BGZF = 3,
  PULSE_OPS_ZSTD = 4,
  PULSE_OPS_LZ4 = 5
};

enum {
  /* compress: the same bytes whatever CPUs there are */
  PULSE_OPS_DETERMINISTIC = 1,
  /* compress, gzip and zlib: chunks use the data before them: smaller; not decoded in parallel */
  PULSE_OPS_PRIMED = 2,
  /* filter: the records that do not match */
  PULSE_OPS_INVERT = 4,
  /* filter: no records, only their number */
  PULSE_OPS_COUNT = 8,
  /* filter: what the first rule that matches captures, with tabs between */
  PULSE_OPS_EXTRACT = 16,
  /* filter: the input is not compressed, though it begins as if it were, as the length of a first
   * record may (PULSE_OPS_PREFIXED) */
  PULSE_OPS_PLAIN = 32
};

#define PULSE_OPS_NO_OFFSET UINT64_MAX

typedef struct pulse_ops_result {
  size_t struct_size;
  int32_t code;
  int32_t trailing_garbage; /* decompress, and filter of compressed input: 1 if bytes that are no
                               stream follow, which were ignored */
  uint64_t tag;             /* the request's */
  uint64_t in_bytes;
  uint64_t out_bytes; /* also of what was written before an error */
  uint64_t selected;  /* filter: how many records */
  /* PULSE_OPS_DAMAGED: where in the compressed input; PULSE_OPS_NO_OFFSET: not known. */
  uint64_t error_offset;
  /* The output, where the request named no other place; what was good before an error, too. */
  void* data;
  size_t size;
  void* reserved;
  char message[240]; /* of an error, a line; of success, empty */
} pulse_ops_result;

/* Reads at most `size` bytes, at least one; 0: the end; negative: an error. */
typedef int64_t (*pulse_ops_read_fn)(void* arg, void* to, size_t size);
/* Takes all of it. Returns 0; anything else is an error. */
typedef int (*pulse_ops_write_fn)(void* arg, const void* data, size_t size);
/* Now and then. Returns 0; anything else cancels. */
typedef int (*pulse_ops_progress_fn)(void* arg, uint64_t in_bytes, uint64_t out_bytes);
/* Once. The result is the library's, and is released when this returns; pulse_ops_move takes what
 * is in it. */
typedef void (*pulse_ops_done_fn)(void* arg, pulse_ops_result* result);

typedef struct pulse_ops_request {
  size_t struct_size;
  int32_t operation;
  int32_t format;
  int32_t level;  /* 1 to 9; 0: 6 for compress, 1 for the output of filter */
  uint32_t flags; /* of above */
  uint64_t tag;   /* comes back with the result */
  /* More output is PULSE_OPS_TOO_LARGE: against decompression bombs; 0: no limit. */
  uint64_t max_output;
  uint64_t max_record;          /* filter: 0: 64 MiB; at most 1 GiB */
  uint64_t chunk_bytes;         /* compress: 0: what suits the format */
  const pulse_ops_rules* rules; /* filter */
  /* The input: memory, or a descriptor (from where it is; that of a regular file is behind what was
   * read once a request has succeeded), or a function. submit: memory. */
  const void* in;
  size_t in_size;
  int in_fd;  /* -1: none */
  int out_fd; /* -1: none */
  pulse_ops_read_fn read;
  void* read_arg;
  /* The output: a descriptor, or a function, or else memory of the library's, in the result. */
  pulse_ops_write_fn write;
  void* write_arg;
  pulse_ops_progress_fn progress; /* run and stream; may be NULL */
  void* progress_arg;
  pulse_ops_done_fn done; /* submit: instead of pulse_ops_wait; may be NULL */
  void* done_arg;
  /* filter: input that is compressed to more data is PULSE_OPS_TOO_LARGE; 0: no limit. (max_output
   * is of the records that match.) */
  uint64_t max_decompressed;
} pulse_ops_request;

static inline void pulse_ops_options_init(pulse_ops_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}
static inline void pulse_ops_request_init(pulse_ops_request* request) {
  memset(request, 0, sizeof *request);
  request->struct_size = sizeof *request;
  request->in_fd = -1;
  request->out_fd = -1;
}
static inline void pulse_ops_result_init(pulse_ops_result* result) {
  memset(result, 0, sizeof *result);
  result->struct_size = sizeof *result;
}

/* --- Rules of filters, in RE2's syntax. A record matches if any rule matches any part of it. */
enum {
  PULSE_OPS_IGNORE_CASE = 1,
  PULSE_OPS_LITERAL = 2, /* rules are texts */
  /* Records have their length in front, 32 bits, little-endian; else they are lines. */
  PULSE_OPS_PREFIXED = 4
};
/* Blocks for milliseconds to seconds. `why` names all rules that cannot be used, as far as there is
 * room. `*rules` may be freed when no request uses it any more. */
PULSE_OPS_API int pulse_ops_rules_compile(const char* const* texts, size_t count, uint32_t flags,
                                          pulse_ops_rules** rules, char* why, size_t why_size);
PULSE_OPS_API void pulse_ops_rules_free(pulse_ops_rules* rules);

/* --- run. Returns result->code. Threads that are restricted to the CPUs of the options, if
 * there are any, call the functions of the request. The calling thread can be one of them, during
 * decompression: it has its own CPUs back when this returns. */
PULSE_OPS_API int pulse_ops_run(pulse_ops* ops, const pulse_ops_request* request,
                                pulse_ops_result* result);
/* Frees what the result holds. Harmless for one that is initialised or was released. */
PULSE_OPS_API void pulse_ops_release(pulse_ops_result* result);
/* `to`, which is initialised or released, becomes what `from` is; `from` is released. */
PULSE_OPS_API void pulse_ops_move(pulse_ops_result* from, pulse_ops_result* to);

/* --- A batch. PULSE_OPS_BUSY: not taken. A request with `done` has its result there, and does not
 * come by wait; it counts as under way until `done` returns. submit does not block. */
PULSE_OPS_API int pulse_ops_submit(pulse_ops* ops, const pulse_ops_request* request);
/* The result of a request that is done, in the order in which they were done. Waits at most
 * `timeout_ms`; 0: only looks. Returns PULSE_OPS_OK if `result` is one (result->code is what became
 * of the request), else PULSE_OPS_TIMEOUT or PULSE_OPS_NOTHING. */
PULSE_OPS_API int pulse_ops_wait(pulse_ops* ops, pulse_ops_result* result, uint32_t timeout_ms);
/* Requests that were submitted and whose results were not taken. */
PULSE_OPS_API size_t pulse_ops_under_way(const pulse_ops* ops);

/* What became of the requests that were submitted, since open. */
typedef struct pulse_ops_counts {
  size_t struct_size;
  uint64_t submitted;
  uint64_t done_by_host; /* by threads of each side */
  uint64_t done_by_agent;
  /* Of an agent in another process: chunks that it did, and chunks that the host did in its place,
   * since it could not do them, or was lost. */
  uint64_t agent_chunks;
  uint64_t fallback_chunks;
  int32_t agent_lost; /* 1: it died, hangs, or answered what makes no sense */
  int32_t reserved;
} pulse_ops_counts;

static inline void pulse_ops_counts_init(pulse_ops_counts* counts) {
  memset(counts, 0, sizeof *counts);
  counts->struct_size = sizeof *counts;
}
/* PULSE_OPS_INVALID: NULL, or a struct that was not initialised. Any thread. */
PULSE_OPS_API int pulse_ops_get_counts(const pulse_ops* ops, pulse_ops_counts* counts);

/* What the placement has decided, since open, of runs, streams and requests that were submitted:
 * chunks by task and side, rates, C1, C2 and break-even, in Prometheus's text format, for the
 * program's own endpoint (docs/reference/metrics.md, Placement). Writes at most `size` bytes with a
 * NUL at the end; `to` may be NULL if `size` is 0. Returns the length of the whole text, without
 * the NUL: more than `size` - 1 means that it was cut. Any thread. */
PULSE_OPS_API size_t pulse_ops_get_metrics(const pulse_ops* ops, char* to, size_t size);

/* --- A stream. The request names no input. */
PULSE_OPS_API int pulse_ops_stream_open(pulse_ops* ops, const pulse_ops_request* request,
                                        pulse_ops_stream** stream);
/* Copies the bytes; waits while 4 MiB are not processed. Anything but PULSE_OPS_OK: the stream has
 * failed, and finish says why. */
PULSE_OPS_API int pulse_ops_stream_write(pulse_ops_stream* stream, const void* data, size_t size);
/* Nothing follows: waits until all is done, returns result->code and frees the stream. */
PULSE_OPS_API int pulse_ops_stream_finish(pulse_ops_stream* stream, pulse_ops_result* result);
/* Gives the stream up; waits until no thread works on it, and frees it. NULL is ignored. */
PULSE_OPS_API void pulse_ops_stream_abort(pulse_ops_stream* stream);

#ifdef __cplusplus
} /* extern "C" */

#if __cplusplus >= 201703L
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/* For C++. No exceptions; nothing here is exported by the library. */
namespace pulse::operators {

class Result {
 public:
  Result() { pulse_ops_result_init(&raw_); }
  Result(Result&& o) noexcept : raw_(o.raw_) { pulse_ops_result_init(&o.raw_); }
  Result& operator=(Result&& o) noexcept {
    if (this == &o) return *this;
    pulse_ops_release(&raw_);
    raw_ = o.raw_;
    pulse_ops_result_init(&o.raw_);
    return *this;
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() { pulse_ops_release(&raw_); }

  bool ok() const { return raw_.code == PULSE_OPS_OK; }
  int code() const { return raw_.code; }
  std::string message() const { return raw_.message; }
  std::string_view data() const { return {static_cast<const char*>(raw_.data), raw_.size}; }
  const pulse_ops_result& raw() const { return raw_; }
  pulse_ops_result* get() { return &raw_; }

 private:
  pulse_ops_result raw_;
};

struct Request : pulse_ops_request {
  explicit Request(int what) {
    pulse_ops_request_init(this);
    operation = what;
  }
  Request& From(std::string_view bytes) {
    in = bytes.data();
    in_size = bytes.size();
    return *this;
  }
};

class Rules {
 public:
  /* Empty, with the reason in `why`, if a rule cannot be used. */
  static Rules Compile(const std::vector<std::string>& texts, uint32_t flags, std::string* why) {
    std::vector<const char*> pointers;
    Rules rules;
    for (const std::string& text : texts) {
      if (text.find('\0') != std::string::npos) {
        if (why != nullptr) *why = "a rule has a NUL byte: write it as \\x00, without LITERAL";
        return rules;
      }
      pointers.push_back(text.c_str());
    }
    std::string line(4096, '\0');
    pulse_ops_rules* raw = nullptr;
    pulse_ops_rules_compile(pointers.data(), pointers.size(), flags, &raw, line.data(),
                            line.size());
    rules.raw_.reset(raw);
    if (why != nullptr && raw == nullptr) *why = line.c_str();
    return rules;
  }
  explicit operator bool() const { return raw_ != nullptr; }
  const pulse_ops_rules* get() const { return raw_.get(); }

 private:
  struct Free {
    void operator()(pulse_ops_rules* rules) const { pulse_ops_rules_free(rules); }
  };
  std::unique_ptr<pulse_ops_rules, Free> raw_;
};

class Operators {
 public:
  /* Empty, with the reason in `why`, for options that make no sense. */
  static Operators Open(const pulse_ops_options* options, std::string* why) {
    Operators operators;
    char line[256] = "";
    pulse_ops* raw = nullptr;
    pulse_ops_open(options, &raw, line, sizeof line);
    operators.raw_.reset(raw);
    if (why != nullptr && raw == nullptr) *why = line;
    return operators;
  }
  explicit operator bool() const { return raw_ != nullptr; }
  pulse_ops* get() const { return raw_.get(); }

  /* Of pulse_ops_get_metrics. */
  std::string Metrics() const {
    std::string text(4096, '\0');
    while (true) {
      const size_t length = pulse_ops_get_metrics(raw_.get(), text.data(), text.size());
      const bool whole = length < text.size();
      text.resize(whole ? length : length + 1024); /* it may grow meanwhile */
      if (whole) return text;
    }
  }

  Result Run(const pulse_ops_request& request) const {
    Result result;
    pulse_ops_run(raw_.get(), &request, result.get());
    return result;
  }
  /* Sets `done` of the request. A request that is not taken (PULSE_OPS_BUSY) is done at once, with
   * that code. */
  std::future<Result> Submit(pulse_ops_request request) const {
    auto* promise = new std::promise<Result>();
    std::future<Result> future = promise->get_future();
    request.done_arg = promise;
    request.done = [](void* arg, pulse_ops_result* done) {
      const std::unique_ptr<std::promise<Result>> mine(static_cast<std::promise<Result>*>(arg));
      Result result;
      pulse_ops_move(done, result.get());
      mine->set_value(std::move(result));
    };
    const int code = pulse_ops_submit(raw_.get(), &request);
    if (code != PULSE_OPS_OK) {
      Result refused;
      refused.get()->code = code;
      promise->set_value(std::move(refused));
      delete promise;
    }
    return future;
  }

 private:
  struct Close {
    void operator()(pulse_ops* ops) const { pulse_ops_close(ops); }
  };
  std::unique_ptr<pulse_ops, Close> raw_;
};

}  // namespace pulse::operators
#endif /* C++17 */
#endif /* __cplusplus */

#endif /* PULSE_OPS_H_ */
