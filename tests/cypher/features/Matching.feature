Feature: Matching - patterns beside the TCK's

  Scenario: Inline WHERE in nodes and relationships
    Given an empty graph
    And having executed:
      """
      CREATE (a:P {n: 1})-[:R {w: 5}]->(b:P {n: 2})-[:R {w: 7}]->(:P {n: 3})
      """
    When executing query:
      """
      MATCH (x:P WHERE x.n > 1)-[r:R WHERE r.w > 6]->(y)
      RETURN x.n AS x, y.n AS y
      """
    Then the result should be, in any order:
      | x | y |
      | 2 | 3 |
    And no side effects

  Scenario: A relationship is walked once in a trail, and again in another MATCH
    Given an empty graph
    And having executed:
      """
      CREATE (a)-[:R]->(a)
      """
    When executing query:
      """
      MATCH (a)-->(b)
      OPTIONAL MATCH (a)-->()-->(c)
      MATCH (a)-[*1..5]-(d)
      RETURN count(b) AS b, count(c) AS c, count(d) AS d
      """
    Then the result should be, in any order:
      | b | c | d |
      | 1 | 0 | 1 |
    And no side effects

  Scenario: Predicates hold for each relationship of a variable length
    Given an empty graph
    And having executed:
      """
      CREATE (:S)-[:R {ok: true, w: 1}]->()-[:R {ok: true, w: 2}]->()-[:R {ok: false, w: 3}]->()
      """
    When executing query:
      """
      MATCH (:S)-[rs:R* {ok: true}]->()
      RETURN [r IN rs | r.w] AS w
      """
    Then the result should be, in any order:
      | w      |
      | [1]    |
      | [1, 2] |
    And no side effects

  Scenario: The list of a variable length follows the pattern, from whichever end it is found
    Given an empty graph
    And having executed:
      """
      CREATE ({n: 0})-[:R {w: 1}]->({n: 1})-[:R {w: 2}]->(:End {n: 2})
      """
    When executing query:
      """
      MATCH p = (a)-[rs*2]->(:End)
      RETURN [r IN rs | r.w] AS w, [n IN nodes(p) | n.n] AS n
      """
    Then the result should be, in any order:
      | w      | n         |
      | [1, 2] | [0, 1, 2] |
    And no side effects

  Scenario Outline: A shortest path
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:R]->(b)-[:R]->(z:Z), (a)-[:R]->(c)-[:R]->(z), (a)-[:Q]->(d)-[:Q]->(e)-[:Q]->(z)
      """
    When executing query:
      """
      MATCH (a:A), (z:Z), p = <kind>((a)-[<edge>]->(z))
      RETURN count(p) AS count, max(length(p)) AS length
      """
    Then the result should be, in any order:
      | count   | length   |
      | <count> | <length> |
    And no side effects

    Examples:
      | kind             | edge    | count | length |
      | shortestPath     | *       | 1     | 2      |
      | allShortestPaths | *       | 2     | 2      |
      | shortestPath     | :Q*     | 1     | 3      |
      | allShortestPaths | :Q*..2  | 0     | null   |

  Scenario: EXISTS sees variables of the outside, and its own
    Given an empty graph
    And having executed:
      """
      CREATE (:P {n: 1})-[:R]->(:Q {n: 1}), (:P {n: 2})-[:R]->(:Q {n: 1}), (:P {n: 3})
      """
    When executing query:
      """
      MATCH (p:P)
      RETURN p.n AS n, EXISTS { (p)-->(q) WHERE q.n = p.n } AS same, EXISTS { MATCH (p)-->(x) RETURN x } AS any
      """
    Then the result should be, in any order:
      | n | same  | any   |
      | 1 | true  | true  |
      | 2 | false | true  |
      | 3 | false | false |
    And no side effects

  Scenario Outline: Label expressions
    Given an empty graph
    And having executed:
      """
      CREATE (:A {n: 1}), (:B {n: 2}), (:A:B {n: 3}), (:C {n: 4}), ({n: 5})
      """
    When executing query:
      """
      MATCH (x:<labels>)
      WITH x ORDER BY x.n
      RETURN collect(x.n) AS n
      """
    Then the result should be, in any order:
      | n      |
      | <rows> |
    And no side effects

    Examples:
      | labels   | rows         |
      | A&B      | [3]          |
      | !A       | [2, 4, 5]    |
      | %        | [1, 2, 3, 4] |
      | !%       | [5]          |
      | !(A&B)&% | [1, 2, 4]    |

  Scenario: One of some labels, each node once, and of some types
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {n: 1})-[:R]->(b:A:B {n: 2})-[:S]->(c:C {n: 3})-[:T]->(a)
      """
    When executing query:
      """
      MATCH (x:A|B)-[r:!T]->(y)
      WHERE y IS B|C AND EXISTS { (x)-[:R|(S&!T)]->(:%) }
      RETURN x.n AS x, type(r) AS r, y.n AS y
      """
    Then the result should be, in any order:
      | x | r   | y |
      | 1 | 'R' | 2 |
      | 2 | 'S' | 3 |
    And no side effects

  Scenario: Quantifiers of one relationship
    Given an empty graph
    And having executed:
      """
      CREATE ({n: 0})-[:R]->({n: 1})-[:R]->({n: 2})-[:R]->({n: 3})
      """
    When executing query:
      """
      MATCH p = ({n: 0})-[rs:R]->{2,3}(b)
      RETURN b.n AS b, size(rs) AS hops, length(p) AS length
      """
    Then the result should be, in any order:
      | b | hops | length |
      | 2 | 2    | 2      |
      | 3 | 3    | 3      |
    And no side effects
