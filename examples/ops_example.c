/* Compresses a batch of blocks at the same time, and reads them back: pulse/ops.h in C, in one
 * screen.
 *
 *   ops_example
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pulse/ops.h"

#define BLOCKS 1000
#define BLOCK 16384

static void check(const char* what, int code) {
  if (code == PULSE_OPS_OK) return;
  fprintf(stderr, "ops_example: %s: %s\n", what, pulse_ops_text(code));
  exit(1);
}

int main(void) {
  static char blocks[BLOCKS][BLOCK];
  static pulse_ops_result packed[BLOCKS];
  pulse_ops* ops;
  pulse_ops_request request;
  pulse_ops_result result;
  char why[256];
  uint64_t bytes = 0;
  size_t i;

  if (pulse_ops_open(NULL, &ops, why, sizeof why) != PULSE_OPS_OK) {
    fprintf(stderr, "ops_example: %s\n", why);
    return 1;
  }
  for (i = 0; i < BLOCKS * (size_t)BLOCK; ++i) {
    blocks[i / BLOCK][i % BLOCK] = (char)('a' + (i * i / 7) % 13);
  }

  /* Each result brings back the tag of its request. */
  pulse_ops_request_init(&request);
  request.operation = PULSE_OPS_COMPRESS;
  request.format = PULSE_OPS_ZSTD;
  request.level = 3;
  for (i = 0; i < BLOCKS; ++i) {
    request.in = blocks[i];
    request.in_size = BLOCK;
    request.tag = i;
    check("submit", pulse_ops_submit(ops, &request));
  }
  for (i = 0; i < BLOCKS; ++i) {
    pulse_ops_result_init(&result);
    check("wait", pulse_ops_wait(ops, &result, 60000));
    check(result.message, result.code);
    bytes += result.size;
    packed[result.tag] = result;
  }
  printf("%d blocks of %d bytes: %" PRIu64 " bytes as zstd\n", BLOCKS, BLOCK, bytes);

  /* One after the other, on all processors. */
  for (i = 0; i < BLOCKS; ++i) {
    pulse_ops_request_init(&request);
    request.operation = PULSE_OPS_DECOMPRESS;
    request.in = packed[i].data;
    request.in_size = packed[i].size;
    request.max_output = BLOCK;
    pulse_ops_result_init(&result);
    check(result.message, pulse_ops_run(ops, &request, &result));
    if (result.size != BLOCK || memcmp(result.data, blocks[i], BLOCK) != 0) {
      fprintf(stderr, "ops_example: block %zu is another one\n", i);
      return 1;
    }
    pulse_ops_release(&result);
    pulse_ops_release(&packed[i]);
  }
  printf("all read back\n");
  pulse_ops_close(ops);
  return 0;
}
