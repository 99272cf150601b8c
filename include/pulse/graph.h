/* PulseDB's graph database, inside a program: a C ABI, and (pulse/graph_cxx.h, which this
 * includes) a thin interface for C++. A
 * property graph in a directory that speaks Cypher, with transactions, indexes and bulk load. The
 * store is that of the DSA graph paper: layers of adjacency lists (section III), whose
 * relationships are moved by copy plans (III-A, III-B).
 *
 *   pulse_graph *graph;
 *   pulse_graph_result *result;
 *   pulse_graph_error error;
 *   pulse_graph_error_init(&error);
 *   if (pulse_graph_open("my-graph", NULL, &graph, &error) != PULSE_GRAPH_OK) puts(error.message);
 *   if (pulse_graph_execute(graph, "MATCH (p:Person) RETURN p.name", SIZE_MAX, NULL, &result,
 * &error)) puts(error.message); const pulse_graph_value *row; while ((row =
 * pulse_graph_next(result)) != NULL) if (row[0].type == PULSE_GRAPH_STRING) puts(row[0].as.text);
 *   pulse_graph_result_free(result);
 *   pulse_graph_free(graph);
 *
 * examples/graph_example.c and graph_example.cc are whole programs. Link with -lpulse-graph. C99,
 * C++20.
 *
 * Threads. A graph serves any number of threads at once. A transaction and a result are for one
 * thread at a time. A graph is of the process that opened it: no call may be made in a child after
 * fork, and the child may only exec or _exit. Functions that the program gives are called by the
 * thread that runs the statement. They may not throw, and may use the graph, but neither close it
 * nor use the transaction whose statement calls them.
 *
 * Blocking. Statements, commits, loads, open and close execute on the calling thread and wait for
 * the disk. What reads a result (rows, columns, Arrow) does not.
 *
 * Memory. What the caller passes stays the caller's, and is copied where it is needed after the
 * call. A result holds all of its rows, at most query_memory bytes, and owns all that it shows; it
 * may be read when its transaction is over, and after pulse_graph_free. Units: bytes, and
 * nanoseconds where a name says so; seconds for limits of time.
 *
 * Durability. A commit that returned PULSE_GRAPH_OK survives the end of the system; without `sync`
 * that of the process.
 *
 * Structs of options, statistics and errors begin with their size. A program that was built with an
 * older header works with a newer library: members beyond those that it knows count as zero.
 * Members that this library does not know have to be zero, else the call is PULSE_GRAPH_INVALID.
 * pulse_graph_value and the structs that it points to never change. Numbers keep their meaning.
 */
#ifndef PULSE_GRAPH_H_
#define PULSE_GRAPH_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define PULSE_GRAPH_API __attribute__((visibility("default")))
#else
#define PULSE_GRAPH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pulse_graph pulse_graph;
typedef struct pulse_graph_transaction pulse_graph_transaction;
typedef struct pulse_graph_result pulse_graph_result;

/* What a call says. Whatever is not OK has changed nothing, if nothing else is said. */
enum {
  PULSE_GRAPH_OK = 0,
  PULSE_GRAPH_INVALID = 1,    /* an argument of the call, or of a function in it, makes no sense */
  PULSE_GRAPH_QUERY = 2,      /* the statement is wrong: error.line and column say where */
  PULSE_GRAPH_CONSTRAINT = 3, /* what was written breaks a constraint, or a name is taken */
  PULSE_GRAPH_CONFLICT = 4,   /* another transaction was first: run the transaction again */
  PULSE_GRAPH_NOT_FOUND = 5,  /* no such database, entity, index, or no longer such a snapshot */
  PULSE_GRAPH_READ_ONLY = 6,  /* it writes, and graph or transaction are open for reading */
  PULSE_GRAPH_LOCKED = 7,     /* another process, or graph, has it open for writing: names it */
  PULSE_GRAPH_LIMIT = 8,      /* more memory than a statement may have, or a full disk */
  PULSE_GRAPH_TIMEOUT = 9,
  PULSE_GRAPH_CANCELLED = 10,   /* `interrupted` said so, or TERMINATE, or the graph was closed */
  PULSE_GRAPH_CLOSED = 11,      /* the graph is closed, or the transaction is over */
  PULSE_GRAPH_ROLLED_BACK = 12, /* the transaction has failed before: it can only be rolled back */
  PULSE_GRAPH_DAMAGED = 13,     /* the database is damaged: names file and place */
  PULSE_GRAPH_FAILED = 14       /* files and directories said no, or the system had no memory */
};

/* A few words for a code; never NULL. Any thread. */
PULSE_GRAPH_API const char* pulse_graph_text(int code);

/* Every call takes NULL instead of an error. It is left alone where the call is OK. */
typedef struct pulse_graph_error {
  size_t struct_size;
  int32_t code;       /* as returned */
  int32_t line;       /* from 1, of the statement; 0: of no place in it */
  int32_t column;     /* from 1, in characters */
  char neo4j[92];     /* as Neo4j's drivers know it: "Neo.ClientError.Statement.SyntaxError" */
  char message[1024]; /* with the line of the statement and a caret, where there is a place */
} pulse_graph_error;

/* --- Values, in parameters and results. */
enum {
  PULSE_GRAPH_NULL = 0,
  PULSE_GRAPH_BOOLEAN = 1,         /* as.integer: 0 or 1 */
  PULSE_GRAPH_INTEGER = 2,         /* as.integer */
  PULSE_GRAPH_FLOAT = 3,           /* as.real */
  PULSE_GRAPH_STRING = 4,          /* as.text, size: bytes of UTF-8. Of results: and a 0 behind */
  PULSE_GRAPH_LIST = 5,            /* as.items, size: how many */
  PULSE_GRAPH_MAP = 6,             /* as.entries, size: how many. Of results: keys ascend */
  PULSE_GRAPH_NODE = 7,            /* as.node; results only */
  PULSE_GRAPH_RELATIONSHIP = 8,    /* as.relationship; results only */
  PULSE_GRAPH_PATH = 9,            /* as.path; results only */
  PULSE_GRAPH_DATE = 10,           /* as.integer: days since 1970-01-01 */
  PULSE_GRAPH_LOCAL_TIME = 11,     /* as.integer: nanoseconds of the day */
  PULSE_GRAPH_TIME = 12,           /* the same, of a clock that is `extra` seconds east of UTC */
  PULSE_GRAPH_LOCAL_DATETIME = 13, /* as.integer: seconds since 1970, `extra`: nanoseconds */
  PULSE_GRAPH_DATETIME = 14,       /* as.datetime */
  PULSE_GRAPH_DURATION = 15,       /* as.duration */
  PULSE_GRAPH_BYTES = 16,          /* as.bytes, size */
  PULSE_GRAPH_POINT = 17           /* as.point */
};

typedef struct pulse_graph_value pulse_graph_value;
typedef struct pulse_graph_entry pulse_graph_entry;
typedef struct pulse_graph_node pulse_graph_node;
typedef struct pulse_graph_relationship pulse_graph_relationship;
typedef struct pulse_graph_path pulse_graph_path;

typedef struct pulse_graph_datetime {
  int64_t seconds;  /* since 1970-01-01T00:00Z */
  int32_t nanos;    /* 0 to 999,999,999 */
  int32_t offset;   /* seconds east of UTC */
  const char* zone; /* "Europe/Lisbon", or NULL: there is only the offset */
} pulse_graph_datetime;

/* Parts that do not convert into each other. */
typedef struct pulse_graph_duration {
  int64_t months, days, seconds;
  int32_t nanos; /* 0 to 999,999,999 */
  int32_t reserved;
} pulse_graph_duration;

/* Longitude, latitude and height in place of x, y and z for 4326 and 4979. */
typedef struct pulse_graph_point {
  double x, y, z; /* z counts for 9157 and 4979 alone */
  int32_t srid;   /* 7203 and 9157: of a plane and of space; 4326 and 4979: WGS-84 */
  int32_t reserved;
} pulse_graph_point;

struct pulse_graph_value {
  int32_t type;
  int32_t extra;
  union {
    int64_t integer;
    double real;
    const char* text;
    const uint8_t* bytes;
    const pulse_graph_value* items;
    const pulse_graph_entry* entries;
    const pulse_graph_node* node;
    const pulse_graph_relationship* relationship;
    const pulse_graph_path* path;
    const pulse_graph_datetime* datetime;
    const pulse_graph_duration* duration;
    const pulse_graph_point* point;
  } as;
  size_t size;
};

/* Of a map, of properties, or a parameter: $key. */
struct pulse_graph_entry {
  const char* key; /* with a 0 behind */
  size_t key_size; /* SIZE_MAX: up to that 0 */
  pulse_graph_value value;
};

/* As it was when the statement ran. One that the statement has deleted has its id only. */
struct pulse_graph_node {
  int64_t id;
  size_t label_count, property_count;
  const char* const* labels;
  const pulse_graph_entry* properties;
};
struct pulse_graph_relationship {
  int64_t id, start, end; /* `start` and `end`: of nodes */
  const char* type;
  size_t property_count;
  const pulse_graph_entry* properties;
};
/* nodes[i] and nodes[i + 1] are the ends of relationships[i], which may point either way. */
struct pulse_graph_path {
  size_t length; /* of relationships; there is one more node */
  const pulse_graph_node* nodes;
  const pulse_graph_relationship* relationships;
};

/* --- Opening. */
typedef struct pulse_graph_options {
  size_t struct_size;
  int32_t read_only;  /* beside a process that writes: the state of this moment */
  int32_t must_exist; /* 1: NOT_FOUND where no database is; 0: it is made */
  int32_t no_sync;    /* 1: a commit survives the end of the process only */
  /* Of one statement that only reads, with the thread that calls; of all statements together, so
   * many less one run beside the callers. 1: none; at most 256; 0: as many as there are CPUs, at
   * most 4. They live within a call. */
  int32_t query_threads;
  uint64_t memory;       /* for relationships that are not in files; 0: 256 MiB, less than 9 MiB: 9.
                          * Nodes beside it: node_memory */
  uint64_t query_memory; /* of a statement, and of its result; 0: 1 GiB */
  double timeout;        /* seconds, of a statement or transaction; 0: none */
  uint64_t retain;       /* AT SNAPSHOT reaches so many commits back */
  /* 1: a look-up reads the single pages of files that it wants, and not what the kernel reads
   * around them: for relationships that memory cannot hold. Without need it makes the first minutes
   * slower. */
  int32_t page_reads;
  /* 1, with read_only: a log that is damaged is read as far as the damage; statistics say so. 0:
   * PULSE_GRAPH_DAMAGED. */
  int32_t damaged;
  /* Directory of the temporary files with what a statement sorts or groups beyond half of
   * query_memory; NULL: TMPDIR, /var/tmp or /tmp, the first that can be written to. They have no
   * names there. */
  const char* spill;
  uint64_t spill_limit; /* bytes in these files, of a statement; 0: 16 GiB; 1: none are written */
  /* Who carries out copies and compactions: "auto", "inline", "threads" (one), "agent", "dsa" or
   * "sim", with the same bytes in files. NULL: the graph's own thread, or "auto" with an agent. One
   * that is not there is PULSE_GRAPH_FAILED. Not used with read_only. */
  const char* engine;
  /* Socket of an agent that does compactions, relative to the directory at opening; NULL: none. */
  const char* agent;
  const char* engine_cpus; /* as "0,2-3": of "threads", and of "agent" without a socket */
  /* The most that nodes and their indexes may take, about: a commit, a load or an index that would
   * go beyond it is PULSE_GRAPH_LIMIT; 0: no limit. */
  uint64_t node_memory;
} pulse_graph_options;

/* `path` NULL: a graph of this process alone, in a temporary directory (TMPDIR, or /tmp), which
 * pulse_graph_free removes. `options` NULL: all zero. */
PULSE_GRAPH_API int pulse_graph_open(const char* path, const pulse_graph_options* options,
                                     pulse_graph** graph, pulse_graph_error* error);
/* Ends what runs on any thread, rolls back open transactions, and writes a checkpoint; what is
 * called afterwards is PULSE_GRAPH_CLOSED. A second call does nothing. */
PULSE_GRAPH_API int pulse_graph_close(pulse_graph* graph, pulse_graph_error* error);
/* Without pulse_graph_close, all that was committed is there as after a kill, and the next open
 * reads the log. Other calls on the graph have returned; its transactions may be freed later. NULL
 * is ignored. */
PULSE_GRAPH_API void pulse_graph_free(pulse_graph* graph);

/* --- Statements. */
typedef struct pulse_graph_run {
  size_t struct_size;
  const pulse_graph_entry* parameters;
  size_t parameter_count;
  double timeout;    /* seconds; 0: the graph's; never more than that. Not within a transaction */
  int32_t read_only; /* 1: a statement that writes is PULSE_GRAPH_READ_ONLY */
  /* 1: where another commit has changed what this transaction read, its own is refused, as where
   * both write the same. 0: snapshot isolation, under which two may each read what the other one
   * writes. Of what only reads it changes nothing. */
  int32_t serializable;
  /* Called now and then; 1 ends the statement with PULSE_GRAPH_CANCELLED. May be NULL. */
  int (*interrupted)(void* arg);
  void* interrupted_arg;
} pulse_graph_run;

/* A statement in a transaction of its own, which is committed when this returns OK; it is repeated
 * where it lost against others. `size` SIZE_MAX: up to the 0. `run` NULL: all zero. Any Cypher,
 * also CREATE INDEX, SHOW, AT SNAPSHOT n, CALL. */
PULSE_GRAPH_API int pulse_graph_execute(pulse_graph* graph, const char* query, size_t size,
                                        const pulse_graph_run* run, pulse_graph_result** result,
                                        pulse_graph_error* error);

/* A snapshot of this moment, and what is written to it, which nobody else sees before the commit.
 * Of `run`, timeout, read_only and serializable count: of the whole transaction. */
PULSE_GRAPH_API int pulse_graph_begin(pulse_graph* graph, const pulse_graph_run* run,
                                      pulse_graph_transaction** transaction,
                                      pulse_graph_error* error);
/* After an error of a query that was carried out the transaction can only be rolled back; one that
 * is no Cypher, or whose parameters cannot be taken, has no effect. */
PULSE_GRAPH_API int pulse_graph_transaction_execute(pulse_graph_transaction* transaction,
                                                    const char* query, size_t size,
                                                    const pulse_graph_run* run,
                                                    pulse_graph_result** result,
                                                    pulse_graph_error* error);
/* Over in any case. OK: durable, and seen by what begins from now on. */
PULSE_GRAPH_API int pulse_graph_commit(pulse_graph_transaction* transaction,
                                       pulse_graph_error* error);
/* OK also where it is over. */
PULSE_GRAPH_API int pulse_graph_rollback(pulse_graph_transaction* transaction,
                                         pulse_graph_error* error);
/* Rolls back what was not committed. NULL is ignored. */
PULSE_GRAPH_API void pulse_graph_transaction_free(pulse_graph_transaction* transaction);

/* --- Results. */
PULSE_GRAPH_API size_t pulse_graph_columns(const pulse_graph_result* result);
/* With a 0 behind; NULL: there is no such column. It lives as long as the result. */
PULSE_GRAPH_API const char* pulse_graph_column_name(const pulse_graph_result* result,
                                                    size_t column);
PULSE_GRAPH_API uint64_t pulse_graph_rows(const pulse_graph_result* result);
/* The next row: as many values as there are columns; NULL at the end. NULL before pulse_graph_rows
 * rows were taken: the system had no memory for the row, and the next call tries it again. The
 * values, and what they point to, live until the next row is taken, by this or pulse_graph_row;
 * strings and bytes of them, as long as the result. */
PULSE_GRAPH_API const pulse_graph_value* pulse_graph_next(pulse_graph_result* result);
/* A row by its number, from 0; pulse_graph_next goes on behind it. NULL: there is none such, or the
 * system had no memory for it. */
PULSE_GRAPH_API const pulse_graph_value* pulse_graph_row(pulse_graph_result* result, uint64_t row);

/* A whole column as numbers: out[row], and valid[row] 0 where it is null (`valid` may be NULL if no
 * row is). Integers, booleans and dates; floats take integers, too. PULSE_GRAPH_INVALID, with the
 * row, where a value is something else. */
PULSE_GRAPH_API int pulse_graph_column_integers(const pulse_graph_result* result, size_t column,
                                                int64_t* out, uint8_t* valid,
                                                pulse_graph_error* error);
PULSE_GRAPH_API int pulse_graph_column_floats(const pulse_graph_result* result, size_t column,
                                              double* out, uint8_t* valid,
                                              pulse_graph_error* error);
/* All rows as an Arrow C stream, in batches of 65,536: `out` is uninitialised, and is the caller's
 * to release, on any thread, also after the result is freed. Nodes, relationships, points and maps
 * become structs. PULSE_GRAPH_INVALID where a column has several types. */
struct ArrowArrayStream;
PULSE_GRAPH_API int pulse_graph_arrow(const pulse_graph_result* result,
                                      struct ArrowArrayStream* out, pulse_graph_error* error);

typedef struct pulse_graph_summary {
  size_t struct_size;
  uint64_t nodes_created, nodes_deleted;
  uint64_t relationships_created, relationships_deleted;
  uint64_t properties_set, labels_added, labels_removed;
  uint64_t indexes_added, indexes_removed, constraints_added, constraints_removed;
  uint64_t sequence; /* of the commit that holds what was written; 0: not committed by this call */
  /* These live as long as the result; "": there is none. */
  const char* plan;   /* of EXPLAIN and PROFILE, as text */
  const char* notice; /* why a schema statement changed nothing */
} pulse_graph_summary;
PULSE_GRAPH_API int pulse_graph_summarize(const pulse_graph_result* result,
                                          pulse_graph_summary* summary);
/* NULL is ignored. */
PULSE_GRAPH_API void pulse_graph_result_free(pulse_graph_result* result);

/* --- Bulk load: columns of rows that the program has. All rows, or none. */
typedef struct pulse_graph_column {
  const char* name;
  int32_t type; /* INTEGER: `data` are int64_t; FLOAT: double; NULL: pulse_graph_value, any types */
  int32_t reserved;
  const void* data;     /* `rows` of them */
  const uint8_t* valid; /* of numbers: 0 is null; NULL: none is */
} pulse_graph_column;

/* Nodes of a label. `key`: a column whose values are there, differ, and are those of no other node
 * of the label (else PULSE_GRAPH_INVALID); it gets an index. NULL: none. `loaded` may be NULL. */
PULSE_GRAPH_API int pulse_graph_load_nodes(pulse_graph* graph, const char* label,
                                           const pulse_graph_column* columns, size_t column_count,
                                           uint64_t rows, const char* key, uint64_t* loaded,
                                           pulse_graph_error* error);
/* Relationships of a type, between nodes that are found by their keys. `source` and `target`: the
 * column of keys, whose name is the property that they are of, and the label of the nodes (NULL:
 * of all). NOT_FOUND names the first key that no node has, INVALID one that several have. */
typedef struct pulse_graph_ends {
  const char* label;
  pulse_graph_column keys;
} pulse_graph_ends;
PULSE_GRAPH_API int pulse_graph_load_relationships(pulse_graph* graph, const char* type,
                                                   const pulse_graph_ends* source,
                                                   const pulse_graph_ends* target,
                                                   const pulse_graph_column* columns,
                                                   size_t column_count, uint64_t rows,
                                                   uint64_t* loaded, pulse_graph_error* error);
/* Nodes out of an Arrow C stream, which is released. Arguments are checked before it is read. */
PULSE_GRAPH_API int pulse_graph_load_nodes_arrow(pulse_graph* graph, const char* label,
                                                 struct ArrowArrayStream* stream, const char* key,
                                                 uint64_t* loaded, pulse_graph_error* error);
/* Relationships out of one: its first two columns are the keys of source and target, whatever their
 * names, and the others are properties. A label (NULL: all nodes) and a key, which is the property,
 * for each end. Errors as of pulse_graph_load_relationships. */
PULSE_GRAPH_API int pulse_graph_load_relationships_arrow(
    pulse_graph* graph, const char* type, const char* source_label, const char* source_key,
    const char* target_label, const char* target_key, struct ArrowArrayStream* stream,
    uint64_t* loaded, pulse_graph_error* error);

/* CSV files, as `pulse graph load` takes them: "LABEL=FILE", and "TYPE=FILE" or
 * "TYPE(LABEL,LABEL)=FILE". */
typedef struct pulse_graph_csv {
  size_t struct_size;
  const char* const* nodes;
  size_t node_count;
  const char* const* relationships;
  size_t relationship_count;
  char delimiter, quote, escape, array_delimiter; /* 0: , " none ; (beside ; it is |) */
  int32_t threads;                                /* 0: as many as there are CPUs */
  const char* null_text; /* a field of this text without quotes is null; NULL: empty ones are */
  const char* reject;    /* file for lines that cannot be loaded; NULL: the first is an error */
} pulse_graph_csv;
typedef struct pulse_graph_loaded {
  size_t struct_size;
  uint64_t nodes, relationships, bytes;
  uint64_t rejected;   /* lines; the two below among them */
  uint64_t dangling;   /* relationships of a node that is not there */
  uint64_t duplicates; /* nodes of a key that is there already */
} pulse_graph_loaded;
/* `loaded` may be NULL. */
PULSE_GRAPH_API int pulse_graph_load_csv(pulse_graph* graph, const pulse_graph_csv* csv,
                                         pulse_graph_loaded* loaded, pulse_graph_error* error);

/* --- The store. */
typedef struct pulse_graph_stats {
  size_t struct_size;
  uint64_t sequence; /* of the newest commit: what AT SNAPSHOT takes */
  uint64_t oldest_snapshot;
  uint64_t log_bytes, run_bytes;                /* on disk */
  uint64_t node_bytes, edge_bytes, chunk_bytes; /* in memory */
  uint64_t flushes, checkpoints, merges;
  uint64_t damaged; /* 1: what was committed behind a damaged place of the log is missing */
} pulse_graph_stats;
/* Does not wait for statements. */
PULSE_GRAPH_API int pulse_graph_statistics(pulse_graph* graph, pulse_graph_stats* stats,
                                           pulse_graph_error* error);
/* Moves what is in memory to files; opening afterwards reads no log. */
PULSE_GRAPH_API int pulse_graph_checkpoint(pulse_graph* graph, pulse_graph_error* error);

/* Zero, with their size. */
static inline void pulse_graph_error_init(pulse_graph_error* error) {
  memset(error, 0, sizeof *error);
  error->struct_size = sizeof *error;
}
static inline void pulse_graph_options_init(pulse_graph_options* options) {
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}
static inline void pulse_graph_run_init(pulse_graph_run* run) {
  memset(run, 0, sizeof *run);
  run->struct_size = sizeof *run;
}
static inline void pulse_graph_summary_init(pulse_graph_summary* summary) {
  memset(summary, 0, sizeof *summary);
  summary->struct_size = sizeof *summary;
}
static inline void pulse_graph_csv_init(pulse_graph_csv* csv) {
  memset(csv, 0, sizeof *csv);
  csv->struct_size = sizeof *csv;
}
static inline void pulse_graph_loaded_init(pulse_graph_loaded* loaded) {
  memset(loaded, 0, sizeof *loaded);
  loaded->struct_size = sizeof *loaded;
}
static inline void pulse_graph_stats_init(pulse_graph_stats* stats) {
  memset(stats, 0, sizeof *stats);
  stats->struct_size = sizeof *stats;
}

/* Values as parameters have them; what is pointed to stays the caller's. */
static inline pulse_graph_value pulse_graph_integer(int64_t integer) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_INTEGER;
  value.as.integer = integer;
  return value;
}
static inline pulse_graph_value pulse_graph_float(double real) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_FLOAT;
  value.as.real = real;
  return value;
}
static inline pulse_graph_value pulse_graph_boolean(int boolean) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_BOOLEAN;
  value.as.integer = boolean != 0;
  return value;
}
static inline pulse_graph_value pulse_graph_string(const char* text, size_t size) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_STRING;
  value.as.text = text;
  value.size = size == SIZE_MAX ? strlen(text) : size;
  return value;
}
static inline pulse_graph_value pulse_graph_bytes(const void* bytes, size_t size) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_BYTES;
  value.as.bytes = (const uint8_t*)bytes;
  value.size = size;
  return value;
}
static inline pulse_graph_value pulse_graph_list(const pulse_graph_value* items, size_t size) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_LIST;
  value.as.items = items;
  value.size = size;
  return value;
}
static inline pulse_graph_value pulse_graph_map(const pulse_graph_entry* entries, size_t size) {
  pulse_graph_value value;
  memset(&value, 0, sizeof value);
  value.type = PULSE_GRAPH_MAP;
  value.as.entries = entries;
  value.size = size;
  return value;
}

#ifdef __cplusplus
} /* extern "C" */

#if __cplusplus >= 202002L
#include "pulse/graph_cxx.h"
#endif /* C++20 */
#endif /* __cplusplus */

#endif /* PULSE_GRAPH_H_ */
