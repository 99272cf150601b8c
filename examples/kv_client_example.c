/* A client of `pulse kv --shm`, in C, in one screen.
 *
 *   pulse kv --shm /tmp/kv.shm &
 *   kv_client_example /tmp/kv.shm
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pulse/kv_client.h"

#define MANY 1000

static void check(const char *what, int code) {
  if (code == PULSE_KV_OK) return;
  fprintf(stderr, "kv_client_example: %s: %s\n", what, pulse_kv_text(code));
  exit(1);
}

/* Many requests under way: each completion brings back the tag of its request. */
static void pipeline(pulse_kv_client *client) {
  pulse_kv_completion done[64];
  char key[32];
  uint64_t next = 0;
  uint64_t finished = 0;
  uint64_t sum = 0;
  while (finished < MANY) {
    size_t count;
    size_t i;
    while (next < MANY) {
      const int size = snprintf(key, sizeof key, "number:%" PRIu64, next);
      const int code = pulse_kv_submit_set(client, key, (size_t)size, &next, sizeof next, 0, next);
      if (code == PULSE_KV_BUSY) break; /* take completions, then go on */
      check("submit", code);
      ++next;
    }
    check("wait", pulse_kv_wait(client, done, 64, &count, 10000));
    for (i = 0; i < count; ++i) {
      check("set", done[i].code);
      sum += done[i].tag;
    }
    finished += count;
  }
  printf("%d numbers, whose sum is %" PRIu64 "\n", MANY, sum);
}

int main(int argc, char **argv) {
  pulse_kv_client *client;
  char why[256];
  char value[100];
  size_t size;
  int code;
  if (argc != 2) {
    fprintf(stderr, "usage: kv_client_example SOCKET\n");
    return 2;
  }
  if (pulse_kv_open(argv[1], 10000, &client, why, sizeof why) != PULSE_KV_OK) {
    fprintf(stderr, "kv_client_example: %s\n", why);
    return 1;
  }

  /* One request, and its answer. The item ends in a minute. */
  check("set", pulse_kv_set(client, "city", 4, "Lisbon", 6, 60000));
  check("get", pulse_kv_get(client, "city", 4, value, sizeof value, &size));
  printf("city = %.*s\n", (int)size, value);
  code = pulse_kv_get(client, "country", 7, value, sizeof value, &size);
  printf("country: %s\n", pulse_kv_text(code));

  pipeline(client);
  pulse_kv_close(client);
  return 0;
}
