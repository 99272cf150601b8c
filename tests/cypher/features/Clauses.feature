Feature: Clauses - what the TCK leaves out

  Scenario: FOREACH updates and keeps the rows
    Given an empty graph
    When executing query:
      """
      WITH [1, 2, 3] AS list
      FOREACH (i IN list | CREATE (:N {i: i}) MERGE (:Sum))
      RETURN size(list) AS size
      """
    Then the result should be, in any order:
      | size |
      | 3    |
    And the side effects should be:
      | +nodes      | 4 |
      | +labels     | 2 |
      | +properties | 3 |

  Scenario: CALL with a subquery for each row
    Given an empty graph
    When executing query:
      """
      UNWIND [1, 2] AS x
      CALL {
        WITH x
        UNWIND range(1, x) AS y
        RETURN sum(y) AS total
      }
      RETURN x, total
      """
    Then the result should be, in any order:
      | x | total |
      | 1 | 1     |
      | 2 | 3     |
    And no side effects

  Scenario: Map projection
    Given an empty graph
    And having executed:
      """
      CREATE (:P {a: 1, b: 2})
      """
    When executing query:
      """
      MATCH (p:P) WITH p, 7 AS seven
      RETURN p {.a, .none, seven, twice: p.b * 2} AS some, p {.*, b: 0} AS all
      """
    Then the result should be, in any order:
      | some                                 | all          |
      | {a: 1, none: null, seven: 7, twice: 4} | {a: 1, b: 0} |
    And no side effects

  Scenario Outline: Malformed queries
    Given any graph
    When executing query:
      """
      <query>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | query                                  | detail                         |
      | MATCH (n) RETURN                       | UnexpectedSyntax               |
      | MATCH (n)                              | UnexpectedSyntax               |
      | RETURN 1 RETURN 2                      | InvalidClauseComposition       |
      | RETURN nothing                         | UndefinedVariable              |
      | RETURN nosuch(1)                       | UnknownFunction                |
      | RETURN size()                          | InvalidNumberOfArguments       |
      | MATCH (n) WHERE n.x = count(*) RETURN n | InvalidAggregation            |
      | MATCH (n) RETURN n.x + count(n)        | AmbiguousAggregationExpression |
      | RETURN count(sum(1))                   | NestedAggregation              |
      | CREATE (a)-[:T*2]->(b)                 | CreatingVarLength              |
      | MATCH (a)-[r]->(r) RETURN a            | VariableTypeConflict           |
      | RETURN 1 AS x UNION RETURN 1 AS y      | DifferentColumnsInUnion        |
      | RETURN 1 AS x LIMIT -1                 | NegativeIntegerArgument        |

  Scenario Outline: Mistakes that only rows show
    Given any graph
    When executing query:
      """
      <query>
      """
    Then a <kind> should be raised at runtime: <detail>

    Examples:
      | query                                       | kind            | detail              |
      | UNWIND [0] AS x RETURN 1 / x                | ArithmeticError | DivisionByZero      |
      | UNWIND [9223372036854775807] AS x RETURN x + 1 | ArithmeticError | IntegerOverflow  |
      | UNWIND [1] AS x RETURN x.y                  | TypeError       | InvalidArgumentType |
      | UNWIND ['('] AS x RETURN 'a' =~ x           | ArgumentError   | InvalidRegex        |
      | UNWIND [{a: 1}] AS x CREATE ({p: x})        | TypeError       | InvalidPropertyType |
      | CREATE (a) DELETE a WITH a SET a.x = 1      | EntityNotFound  | DeletedEntityAccess |
