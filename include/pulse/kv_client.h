/* The client of `pulse kv --shm PATH`: a C ABI for programs on the server's machine. Requests and
 * answers go through memory that client and server share; no call of the fast path enters the
 * kernel while the other side is awake. Section 4.2 of the DPU-KV paper has the queue pair.
 *
 *   pulse_kv_client *client;
 *   char why[256];
 *   if (pulse_kv_open("/run/pulse/kv.shm", 1000, &client, why, sizeof why) != PULSE_KV_OK) ...
 *   pulse_kv_set(client, "key", 3, "value", 5, 60000);
 *   pulse_kv_close(client);
 *
 * examples/kv_client_example.c is a whole program. Link with -lpulse-kv-client. C99 and C++.
 *
 * Keys and values are those of the server's Redis and memcached clients: any bytes, keys of 0 to
 * 65535, and no more than pulse_kv_limits() bytes. The calls for one key take values as large as
 * the store does (`pulse kv --max-value`; 512 MiB at most), each as a whole. Of a request that is
 * submitted, key and value together, and a value that is read, have at most pulse_kv_limits() bytes
 * (`pulse kv --shm-value`). Beyond that a call, or a completion, says PULSE_KV_TOO_LARGE. What is
 * given to a call is copied before it returns.
 *
 * Access. The socket has mode 0600, and the server takes clients of its own user and of root. That
 * is all the access control there is: passwords and users (--requirepass, --users) are for the
 * other protocols. A client can read and write all keys, and learns the seed of the hash.
 *
 * Threads. One client object is for one thread at a time; threads open one each. Not to be used in
 * a child process after fork.
 *
 * Blocking. submit, flush and poll never wait. pulse_kv_wait and the calls for one key wait for the
 * time that they are given: first they look for some microseconds, then they sleep.
 *
 * Order. Requests for one key take effect in the order of the calls; requests for different keys
 * may overtake each other, and so may their completions.
 *
 * The server may end, hang or misbehave at any time: calls return PULSE_KV_LOST or
 * PULSE_KV_TIMEOUT, and neither crash nor wait for longer. After PULSE_KV_LOST all calls return it;
 * close the client, and open another one. A request without an answer may have been carried out, or
 * not. A client that ends, however it does, costs the server nothing: its memory is given back at
 * once.
 */
#ifndef PULSE_KV_CLIENT_H_
#define PULSE_KV_CLIENT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PULSE_KV_API __attribute__((visibility("default")))
#else
#define PULSE_KV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulse_kv_client pulse_kv_client;

/* What a call, or a completion, says. Numbers do not change their meaning. */
enum {
  PULSE_KV_OK = 0,
  PULSE_KV_NOT_FOUND = 1, /* get, delete: there is no such item */
  PULSE_KV_NO_MEMORY = 2, /* set: the store is full; nothing has changed */
  PULSE_KV_TOO_LARGE = 3, /* key or value, for this client or for the store */
  PULSE_KV_REFUSED = 4,   /* the server made no sense of the request: a fault of this library */
  PULSE_KV_TIMEOUT = 5,   /* no answer in time; the request may still be carried out */
  PULSE_KV_LOST = 6,      /* the server has ended, or broke the protocol */
  PULSE_KV_BUSY = 7,      /* as much is under way as can be: take completions first */
  PULSE_KV_INVALID = 8,   /* an argument makes no sense; nothing was done */
  PULSE_KV_NO_SERVER = 9, /* open: nobody listens there */
  PULSE_KV_VERSION = 10,  /* open: library and server are of releases that do not fit */
  PULSE_KV_CLIENTS = 11,  /* open: the server has as many clients as it takes (--shm-clients) */
  PULSE_KV_DENIED = 12,   /* open: another user's server */
  PULSE_KV_SYSTEM = 13    /* open: the system refused memory or descriptors; get and set of a large
                             value: memory, or the process's limit of file sizes (RLIMIT_FSIZE),
                             now or when it opened, is smaller. Nothing was done */
};

/* A few words for a code; never NULL. Any thread. */
PULSE_KV_API const char* pulse_kv_text(int code);

/* Connects to the server that listens at `path`; waits at most `timeout_ms`, which is also the
 * time that calls for one key have. `*client` is the caller's, to be closed, or NULL after an
 * error; then `why`, if it is not NULL, is given a line of at most `why_size` bytes that says what
 * failed and the remedy. */
PULSE_KV_API int pulse_kv_open(const char* path, uint32_t timeout_ms, pulse_kv_client** client,
                               char* why, size_t why_size);
/* Does not wait; requests under way may or may not be carried out. NULL is ignored. */
PULSE_KV_API void pulse_kv_close(pulse_kv_client* client);

/* The most bytes that key and value of a set, and the value of a get, may have if they are
 * submitted. */
PULSE_KV_API void pulse_kv_limits(const pulse_kv_client* client, size_t* set_bytes,
                                  size_t* get_bytes);

/* --- One request, and its answer. PULSE_KV_BUSY while requests that were submitted (below) have
 * completions which were not taken.
 *
 * Copies the value to `value`, which has room for `room` bytes, and sets *size. PULSE_KV_TOO_LARGE:
 * the value has *size bytes, and nothing was copied. `size` may not be NULL. A value beyond
 * pulse_kv_limits() is asked for twice, and is what it was the second time. */
PULSE_KV_API int pulse_kv_get(pulse_kv_client* client, const void* key, size_t key_size,
                              void* value, size_t room, size_t* size);
/* Replaces value and expiry. The item ends in `ttl_ms` milliseconds; 0: it does not end. */
PULSE_KV_API int pulse_kv_set(pulse_kv_client* client, const void* key, size_t key_size,
                              const void* value, size_t value_size, uint64_t ttl_ms);
PULSE_KV_API int pulse_kv_delete(pulse_kv_client* client, const void* key, size_t key_size);

/* --- Many requests under way. Each has a tag of the caller's, which its completion brings back.
 * Requests are collected, and handed to the server when there are as many as a transfer takes, and
 * by flush, poll and wait. PULSE_KV_BUSY: not taken; take completions, and submit it again. */
PULSE_KV_API int pulse_kv_submit_get(pulse_kv_client* client, const void* key, size_t key_size,
                                     uint64_t tag);
PULSE_KV_API int pulse_kv_submit_set(pulse_kv_client* client, const void* key, size_t key_size,
                                     const void* value, size_t value_size, uint64_t ttl_ms,
                                     uint64_t tag);
PULSE_KV_API int pulse_kv_submit_delete(pulse_kv_client* client, const void* key, size_t key_size,
                                        uint64_t tag);
PULSE_KV_API int pulse_kv_flush(pulse_kv_client* client);

typedef struct pulse_kv_completion {
  uint64_t tag;
  /* Of a get: the value, in shared memory. Valid until the next call of poll, wait, get, set,
   * delete or close for this client; submit and flush leave it valid. Copy what you keep, and check
   * the copy: a server that means harm can write there meanwhile. NULL unless PULSE_KV_OK. */
  const void* value;
  size_t value_size; /* PULSE_KV_TOO_LARGE: of the value that does not fit, 0 if not known;
                        pulse_kv_get gets it */
  int32_t code;      /* PULSE_KV_OK to PULSE_KV_REFUSED */
  int32_t zero;
} pulse_kv_completion;

/* Takes at most `most` completions that are there, and sets *count; 0: none is. */
PULSE_KV_API int pulse_kv_poll(pulse_kv_client* client, pulse_kv_completion* completions,
                               size_t most, size_t* count);
/* The same, and waits until there is one. PULSE_KV_TIMEOUT: there was none for `timeout_ms`; what
 * is under way stays so. PULSE_KV_OK and 0: nothing is under way. */
PULSE_KV_API int pulse_kv_wait(pulse_kv_client* client, pulse_kv_completion* completions,
                               size_t most, size_t* count, uint32_t timeout_ms);
/* Requests that were submitted and whose completions were not taken. */
PULSE_KV_API size_t pulse_kv_outstanding(const pulse_kv_client* client);

#ifdef __cplusplus
}
#endif

#endif /* PULSE_KV_CLIENT_H_ */
