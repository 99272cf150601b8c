// bolt_driver_test.js SERVER...: Neo4j's driver for JavaScript against a Bolt server. SERVER is a
// command as bolt_driver_test.py takes it. The driver is found by NODE_PATH.
'use strict'
const assert = require('node:assert')
const { spawn } = require('node:child_process')
const readline = require('node:readline')
const { test, before, after } = require('node:test')
const neo4j = require('neo4j-driver')

const command = process.env.BOLT_SERVER.split(' ')
let server, port, driver

function start (...options) {
  const child = spawn(command[0], command.slice(1).concat(options), { stdio: ['pipe', 'pipe', 'inherit'] })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => reject(new Error(`the server ended with ${code}`)))
    readline.createInterface({ input: child.stdout }).once('line', line => resolve([child, Number(line)]))
  })
}

function stop (child) {
  child.removeAllListeners('exit')
  return new Promise(resolve => { child.once('exit', resolve); child.stdin.end() })
}

before(async () => {
  [server, port] = await start()
  driver = neo4j.driver(`bolt://127.0.0.1:${port}`)
})
after(async () => {
  await driver.close()
  assert.strictEqual(await stop(server), 0)
})

async function value (query, parameters) {
  const { records } = await driver.executeQuery(query, parameters)
  assert.strictEqual(records.length, 1)
  return records[0].get(0)
}

test('Connectivity_ServerInfo_NamesVersion', async () => {
  const info = await driver.getServerInfo()
  assert.match(info.agent, /^Neo4j\/5\./)
  assert.strictEqual(await driver.supportsMultiDb(), true)
})

test('Values_Plain_ComeBackTheSame', async () => {
  for (const v of [null, true, false, 0.5, -1e300, '', 'ünïcödé ☃ 𝄞', 'x'.repeat(70000), [], [1.5, 'a', null],
    Array.from({ length: 300 }, (_, i) => i + 0.5), {}, { a: { b: [null] } }]) {
    assert.deepStrictEqual(await value('RETURN $v', { v }), v)
  }
  for (const i of ['0', '-1', '127', '128', '-129', '32768', '2147483648', '9223372036854775807',
    '-9223372036854775808']) {
    assert.strictEqual((await value('RETURN $v', { v: neo4j.int(i) })).toString(), i)
  }
})

test('Values_Temporal_ComeBackTheSame', async () => {
  const t = neo4j.types
  for (const v of [new t.Date(2024, 2, 29), new t.LocalTime(23, 59, 59, 999999999), new t.Time(1, 2, 3, 4, -12600),
    new t.LocalDateTime(2024, 5, 6, 7, 8, 9, 123456789), new t.DateTime(1969, 12, 31, 23, 59, 59, 1, 3600),
    new t.Duration(-1, 2, -3, 4)]) {
    assert.strictEqual((await value('RETURN $v', { v })).toString(), v.toString())
  }
  const zoned = new t.DateTime(2024, 7, 1, 12, 0, 0, 0, undefined, 'Europe/Berlin')
  assert.strictEqual((await value('RETURN $v', { v: zoned })).toString(), '2024-07-01T12:00:00+02:00[Europe/Berlin]')
})

test('Values_Bytes_ComeBackTheSame', async () => {
  for (const size of [0, 1, 255, 256, 65535, 65536, 200000]) {
    const v = Int8Array.from({ length: size }, (_, i) => i * 7 - 128)
    assert.deepStrictEqual(Int8Array.from(await value('RETURN $v', { v })), v)
  }
  const v = Int8Array.from([0, -1])
  await driver.executeQuery('CREATE (:Raw {b: $v})', { v })
  assert.strictEqual((await value('MATCH (n:Raw {b: $v}) RETURN size(n.b)', { v })).toNumber(), 2)
})

test('Values_Points_ComeBackTheSame', async () => {
  const { Point } = neo4j.types
  for (const v of [new Point(neo4j.int(7203), 1, -2.5), new Point(neo4j.int(9157), 1, 2, 3),
    new Point(neo4j.int(4326), 13.4, 52.5), new Point(neo4j.int(4979), 13.4, 52.5, 34)]) {
    const back = await value('RETURN $v', { v })
    assert.ok(neo4j.isPoint(back))
    assert.strictEqual(back.toString(), v.toString())
    await driver.executeQuery('CREATE (:At {p: $v})', { v })
    assert.strictEqual((await value('MATCH (n:At {p: $v}) RETURN n.p', { v })).toString(), v.toString())
  }
  const made = await value('RETURN point({x: 1, y: 2, z: 3})')
  assert.deepStrictEqual([made.srid.toNumber(), made.x, made.y, made.z], [9157, 1, 2, 3])
})

test('Graph_NodesRelationshipsPaths_HaveAll', async () => {
  await driver.executeQuery("CREATE (:A {name: 'a'})-[:R {w: 1}]->(:B)<-[:S]-(:C)")
  const node = await value('MATCH (n:A) RETURN n')
  assert.deepStrictEqual([node.labels, node.properties], [['A'], { name: 'a' }])
  const edge = await value('MATCH (:A)-[r:R]->() RETURN r')
  assert.strictEqual(edge.type, 'R')
  assert.strictEqual(edge.startNodeElementId, node.elementId)
  const path = await value('MATCH p = (:A)-[:R]->()<-[:S]-() RETURN p')
  assert.strictEqual(path.length, 2)
  assert.deepStrictEqual(path.segments.map(s => s.relationship.type), ['R', 'S'])
  assert.deepStrictEqual(path.segments[1].relationship.endNodeElementId, path.segments[0].end.elementId)
})

test('Streaming_InParts_IsWhole', async () => {
  const session = driver.session({ fetchSize: 100 })
  let count = 0
  for await (const record of session.run('UNWIND range(1, 5000) AS x RETURN x')) {
    assert.strictEqual(record.get('x').toNumber(), ++count)
  }
  assert.strictEqual(count, 5000)
  await session.close()
})

test('Streaming_StoppedEarly_LeavesTheConnection', async () => {
  const session = driver.session({ fetchSize: 10 })
  const endless = 'UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN a, b'
  for await (const record of session.run(endless)) {
    assert.strictEqual(record.get('b').toNumber(), 1)
    break
  }
  assert.strictEqual((await session.run('RETURN 1 AS x')).records[0].get('x').toNumber(), 1)
  await session.close()
})

test('Transaction_SeveralResultsAtOnce', async () => {
  const session = driver.session({ fetchSize: 7 })
  const sums = await session.executeWrite(async tx => {
    const results = [1, 2, 3].map(n => tx.run('UNWIND range(1, 500) AS x RETURN x * $n AS y', { n: neo4j.int(n) }))
    return Promise.all(results.map(async r => (await r).records.reduce((s, row) => s + row.get('y').toNumber(), 0)))
  })
  assert.deepStrictEqual(sums, [125250, 250500, 375750])
  await session.close()
})

test('Errors_HaveNeo4jCodes', async () => {
  for (const [query, code] of [['RETRUN 1', 'Neo.ClientError.Statement.SyntaxError'],
    ['RETURN 1 / 0', 'Neo.ClientError.Statement.ArithmeticError'],
    ['DROP INDEX nothing', 'Neo.ClientError.Schema.IndexNotFound']]) {
    const session = driver.session()
    await assert.rejects(session.run(query), error => error.code === code)
    await session.close()
  }
})

test('Summary_CountersAndPlan', async () => {
  const { summary } = await driver.executeQuery('CREATE (n:Counted {x: 1}) RETURN n')
  assert.strictEqual(summary.counters.updates().nodesCreated, 1)
  assert.strictEqual(summary.queryType, 'rw')
  const session = driver.session()
  const explained = await session.run('EXPLAIN MATCH (n) RETURN n')
  assert.strictEqual(explained.summary.plan.operatorType, 'Project')
  await session.close()
})

test('Aborted_TransactionFunction_RunsAgain', async () => {
  const [other, at] = await start('--aborts', '1')
  const retrying = neo4j.driver(`neo4j://127.0.0.1:${at}`)
  const session = retrying.session()
  let attempts = 0
  await session.executeWrite(tx => { ++attempts; return tx.run('CREATE (:T)') })
  assert.strictEqual(attempts, 2)
  await session.close()
  await retrying.close()
  await stop(other)
})
