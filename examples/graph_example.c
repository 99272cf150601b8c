/* The graph database in one screen of C: a temporary graph, a bulk load, a query with a parameter,
 * rows, a column, and an error.
 *
 *   graph_example
 */
#include <stdio.h>
#include <stdlib.h>

#include "pulse/graph.h"

static void check(int code, const pulse_graph_error* error) {
  if (code == PULSE_GRAPH_OK) return;
  fprintf(stderr, "graph_example: %s: %s\n", pulse_graph_text(code), error->message);
  exit(1);
}

static void load(pulse_graph* graph) {
  static const int64_t ids[] = {1, 2, 3};
  static const double heights[] = {1.62, 1.80, 1.75};
  static const int64_t sources[] = {1, 2}, targets[] = {2, 3}, since[] = {1999, 2005};
  pulse_graph_value names[3];
  pulse_graph_column columns[3] = {{"id", PULSE_GRAPH_INTEGER, 0, ids, NULL},
                                   {"height", PULSE_GRAPH_FLOAT, 0, heights, NULL},
                                   {"name", PULSE_GRAPH_NULL, 0, names, NULL}};
  const pulse_graph_ends from = {"Person", {"id", PULSE_GRAPH_INTEGER, 0, sources, NULL}};
  const pulse_graph_ends to = {"Person", {"id", PULSE_GRAPH_INTEGER, 0, targets, NULL}};
  const pulse_graph_column properties = {"since", PULSE_GRAPH_INTEGER, 0, since, NULL};
  pulse_graph_error error;
  pulse_graph_error_init(&error);
  names[0] = pulse_graph_string("Ann", SIZE_MAX);
  names[1] = pulse_graph_string("Bob", SIZE_MAX);
  names[2] = pulse_graph_string("Cid", SIZE_MAX);
  check(pulse_graph_load_nodes(graph, "Person", columns, 3, 3, "id", NULL, &error), &error);
  check(pulse_graph_load_relationships(graph, "KNOWS", &from, &to, &properties, 1, 2, NULL, &error),
        &error);
}

int main(void) {
  pulse_graph* graph;
  pulse_graph_result* result;
  const pulse_graph_value* row;
  pulse_graph_entry parameter = {"since", SIZE_MAX, {0}};
  pulse_graph_run run;
  pulse_graph_error error;
  double heights[3];

  pulse_graph_error_init(&error);
  pulse_graph_run_init(&run);
  /* NULL: a temporary one. A path stands for a database in that directory. */
  check(pulse_graph_open(NULL, NULL, &graph, &error), &error);
  load(graph);

  parameter.value = pulse_graph_integer(2000);
  run.parameters = &parameter;
  run.parameter_count = 1;
  check(pulse_graph_execute(graph,
                            "MATCH (a:Person)-[k:KNOWS]->(b) WHERE k.since > $since "
                            "RETURN a.name, k, b.name",
                            SIZE_MAX, &run, &result, &error),
        &error);
  while ((row = pulse_graph_next(result)) != NULL) {
    const pulse_graph_relationship* knows = row[1].as.relationship;
    printf("%s %s %s since %lld\n", row[0].as.text, knows->type, row[2].as.text,
           (long long)knows->properties[0].value.as.integer);
  }
  pulse_graph_result_free(result);

  /* A whole column at once. */
  check(pulse_graph_execute(graph, "MATCH (p:Person) RETURN p.height ORDER BY p.id", SIZE_MAX, NULL,
                            &result, &error),
        &error);
  check(pulse_graph_column_floats(result, 0, heights, NULL, &error), &error);
  printf("%.2f %.2f %.2f\n", heights[0], heights[1], heights[2]);
  pulse_graph_result_free(result);

  if (pulse_graph_execute(graph, "MATCH (p RETURN p", SIZE_MAX, NULL, &result, &error) ==
      PULSE_GRAPH_QUERY) {
    printf("line %d, column %d\n", (int)error.line, (int)error.column);
  }
  pulse_graph_free(graph);
  return 0;
}
