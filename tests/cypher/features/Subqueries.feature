Feature: Subqueries - COUNT, COLLECT, scopes of CALL, and ||

  Background:
    Given an empty graph
    And having executed:
      """
      CREATE (a:P {n: 1})-[:K {w: 1}]->(b:P {n: 2})-[:K {w: 2}]->(c:P {n: 3}), (a)-[:K {w: 3}]->(c)
      """

  Scenario: COUNT of a pattern, with WHERE, and where there is none
    When executing query:
      """
      MATCH (p:P)
      RETURN p.n AS n, COUNT { (p)-->() } AS all, COUNT { (p)-[k]->(q) WHERE q.n = 3 } AS third, COUNT { (p)<-[:X]-() } AS none
      """
    Then the result should be, in any order:
      | n | all | third | none |
      | 1 | 2   | 1     | 0    |
      | 2 | 1   | 1     | 0    |
      | 3 | 0   | 0     | 0    |
    And no side effects

  Scenario: COUNT of a whole query, in WHERE and ORDER BY
    When executing query:
      """
      MATCH (p:P)
      WHERE COUNT { MATCH (p)-->(q) WITH DISTINCT q RETURN q } < 2
      RETURN p.n AS n ORDER BY COUNT { (p)-->() } DESC
      """
    Then the result should be, in order:
      | n |
      | 2 |
      | 3 |
    And no side effects

  Scenario: COUNT nests, and counts rows of UNION
    When executing query:
      """
      MATCH (p:P {n: 1})
      RETURN COUNT { (p)-->(q) WHERE COUNT { (q)-->() } = 0 } AS last,
             COUNT { RETURN 1 AS x UNION RETURN 1 AS x } AS one,
             COUNT { RETURN 1 AS x UNION ALL RETURN 1 AS x } AS two
      """
    Then the result should be, in any order:
      | last | one | two |
      | 1    | 1   | 2   |
    And no side effects

  Scenario: COUNT of a pattern with a null, and a variable of that name
    When executing query:
      """
      OPTIONAL MATCH (p:None)
      WITH p, {a: 1} AS count
      RETURN COUNT { (p)-->() } AS c, count {.a} AS m, count {a: 2} AS n
      """
    Then the result should be, in any order:
      | c | m      | n      |
      | 0 | {a: 1} | {a: 2} |
    And no side effects

  Scenario: COLLECT keeps order and nulls
    When executing query:
      """
      MATCH (p:P)
      RETURN p.n AS n, COLLECT { MATCH (p)-[k]->(q) RETURN q.n ORDER BY k.w DESC } AS list,
             COLLECT { UNWIND [p.n, null] AS x RETURN x } AS nulls
      """
    Then the result should be, in any order:
      | n | list   | nulls     |
      | 1 | [3, 2] | [1, null] |
      | 2 | [3]    | [2, null] |
      | 3 | []     | [3, null] |
    And no side effects

  Scenario: COLLECT with LIMIT starts anew for each row, and nests
    When executing query:
      """
      UNWIND [1, 2] AS x
      RETURN COLLECT { UNWIND range(x, 9) AS y RETURN y LIMIT 2 } AS list,
             size(COLLECT { UNWIND [1, 2] AS a RETURN COLLECT { UNWIND [a, x] AS b RETURN b } }) AS lists
      """
    Then the result should be, in any order:
      | list   | lists |
      | [1, 2] | 2     |
      | [2, 3] | 2     |
    And no side effects

  Scenario: COLLECT of a UNION
    When executing query:
      """
      RETURN COLLECT { RETURN 1 AS x UNION RETURN 2 AS x UNION RETURN 1 AS x } AS list
      """
    Then the result should be, in any order:
      | list   |
      | [1, 2] |
    And no side effects

  Scenario: COLLECT without RETURN is an error
    When executing query:
      """
      MATCH (p:P) RETURN COLLECT { MATCH (p)-->(q) } AS c
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: COLLECT of two columns is an error
    When executing query:
      """
      MATCH (p:P) RETURN COLLECT { RETURN 1 AS a, 2 AS b } AS c
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: COUNT may not update
    When executing query:
      """
      MATCH (p:P) RETURN COUNT { CREATE (q) RETURN q } AS c
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: CALL with a scope
    When executing query:
      """
      MATCH (p:P)
      CALL (p) {
        MATCH (p)-->(q)
        RETURN count(q) AS c
      }
      RETURN p.n AS n, c
      """
    Then the result should be, in any order:
      | n | c |
      | 1 | 2 |
      | 2 | 1 |
      | 3 | 0 |
    And no side effects

  Scenario: CALL with a scope of all, of none, and UNION
    When executing query:
      """
      UNWIND [1, 2] AS x
      WITH x, x * 10 AS y
      CALL (*) { RETURN x + y AS sum }
      CALL () { RETURN 7 AS seven }
      CALL (x, y) { RETURN x AS z UNION RETURN y AS z }
      RETURN x, sum, seven, z
      """
    Then the result should be, in any order:
      | x | sum | seven | z  |
      | 1 | 11  | 7     | 1  |
      | 1 | 11  | 7     | 10 |
      | 2 | 22  | 7     | 2  |
      | 2 | 22  | 7     | 20 |
    And no side effects

  Scenario: CALL with a scope updates
    When executing query:
      """
      UNWIND [1, 2] AS x
      CALL (x) { CREATE (:N {x: x}) }
      RETURN x
      """
    Then the result should be, in any order:
      | x |
      | 1 |
      | 2 |
    And the side effects should be:
      | +nodes      | 2 |
      | +labels     | 1 |
      | +properties | 2 |

  Scenario: CALL sees only what its scope names
    When executing query:
      """
      WITH 1 AS x, 2 AS y CALL (x) { RETURN x + y AS z } RETURN z
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: CALL with a scope of what is not there
    When executing query:
      """
      WITH 1 AS x CALL (y) { RETURN 1 AS z } RETURN z
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: CALL with a scope that names one twice
    When executing query:
      """
      WITH 1 AS x CALL (x, x) { RETURN 1 AS z } RETURN z
      """
    Then a SyntaxError should be raised at compile time: VariableAlreadyBound

  Scenario: Texts and lists are joined
    When executing query:
      """
      RETURN 'a' || 'b' || 'c' AS text, [1] || [2, [3]] AS list, 'a' || null AS none, [x IN ['d'] | x || 'e'] AS inner
      """
    Then the result should be, in any order:
      | text  | list        | none | inner  |
      | 'abc' | [1, 2, [3]] | null | ['de'] |
    And no side effects

  Scenario: Joining of numbers is an error
    When executing query:
      """
      RETURN 1 || 2 AS x
      """
    Then a SyntaxError should be raised at compile time: InvalidArgumentType

  Scenario: A number and a text are not joined
    When executing query:
      """
      MATCH (p:P) RETURN 'n' || p.n AS x
      """
    Then a TypeError should be raised at runtime: InvalidArgumentType

  Scenario: Random UUIDs differ, and are of version 4
    When executing query:
      """
      UNWIND range(1, 100) AS i
      WITH collect(DISTINCT randomUUID()) AS ids
      RETURN size(ids) AS n, all(id IN ids WHERE id =~ '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}') AS good
      """
    Then the result should be, in any order:
      | n   | good |
      | 100 | true |
    And no side effects

  Scenario: CALL that writes does not see its own nodes in the scan before it
    Given an empty graph
    And having executed:
      """
      UNWIND range(1, 3000) AS i CREATE (:A {i: i})
      """
    When executing query:
      """
      MATCH (n:A)
      CALL (n) { CREATE (m:A {i: -n.i}) RETURN m }
      RETURN count(*) AS rows
      """
    Then the result should be, in any order:
      | rows |
      | 3000 |
    And the side effects should be:
      | +nodes      | 3000 |
      | +properties | 3000 |

  Scenario: CALL that changes labels meets each node once
    Given an empty graph
    And having executed:
      """
      UNWIND range(1, 3000) AS i CREATE (:A {i: i})
      """
    When executing query:
      """
      MATCH (n:A|B)
      CALL (n) { REMOVE n:A SET n:B }
      RETURN count(*) AS rows, count(DISTINCT n) AS nodes
      """
    Then the result should be, in any order:
      | rows | nodes |
      | 3000 | 3000  |
    And the side effects should be:
      | +labels | 1 |
      | -labels | 1 |
