// The page of `pulse graph serve --http`: one file without anything from elsewhere. It asks POST
// /query, shows rows and draws nodes and relationships; everything is set as text, never as HTML.
#include "apps/pulse/graph/page_server.h"

namespace pulse {

const char kGraphPage[] = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>PulseDB graph</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style nonce="@NONCE@">
:root { color-scheme: light dark; --back: #fff; --fore: #1b1f24; --soft: #59636e; --line: #d1d9e0;
  --box: #f6f8fa; --key: #0757ba; --bad: #a40e26; --edge: #7d8894; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --fore: #e6edf3; --soft: #9aa4af;
  --line: #3d444d; --box: #151b23; --key: #74b4ff; --bad: #ff8a80; --edge: #76818d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--back); color: var(--fore);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.1rem; margin: 0 0 .6rem; }
textarea, pre, td, th { font: 13px/1.45 ui-monospace, monospace; }
textarea { width: 100%; min-height: 5.5rem; padding: .5rem; color: inherit; background: var(--box);
  border: 1px solid var(--line); border-radius: 6px; resize: vertical; }
button { font: inherit; padding: .3rem .9rem; color: var(--back); background: var(--key);
  border: 1px solid var(--key); border-radius: 6px; cursor: pointer; }
button:disabled { opacity: .5; cursor: default; }
:focus-visible { outline: 2px solid var(--key); outline-offset: 1px; }
.bar { display: flex; gap: .8rem; align-items: center; margin: .5rem 0; flex-wrap: wrap; color: var(--soft); }
pre { margin: .5rem 0; padding: .6rem; overflow: auto; background: var(--box); border: 1px solid var(--line);
  border-radius: 6px; white-space: pre; }
pre.bad { color: var(--bad); border-color: var(--bad); }
.scroll { overflow: auto; max-height: 26rem; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; min-width: 100%; }
th, td { padding: .25rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--box); }
td { white-space: pre-wrap; overflow-wrap: anywhere; max-width: 40rem; }
svg { display: block; width: 100%; height: 26rem; margin: .6rem 0; background: var(--box);
  border: 1px solid var(--line); border-radius: 6px; }
svg text { fill: var(--fore); font: 11px system-ui, sans-serif; text-anchor: middle; pointer-events: none; }
svg text.type { fill: var(--soft); font-size: 10px; }
svg line, svg path { stroke: var(--edge); stroke-width: 1.3; fill: none; }
svg marker path { fill: var(--edge); stroke: none; }
svg circle { stroke: var(--back); stroke-width: 1.5; cursor: grab; }
svg g:focus { outline: none; } svg g:focus circle { stroke: var(--fore); stroke-width: 3; }
[hidden] { display: none !important; }
</style></head><body>
<h1>PulseDB graph</h1>
<form id="form">
<label for="query">Cypher</label>
<textarea id="query" spellcheck="false" autofocus>MATCH (a)-[r]->(b) RETURN a, r, b LIMIT 50</textarea>
<div class="bar"><button id="run">Run</button><span>Ctrl+Enter runs</span>
<span id="state" role="status" aria-live="polite"></span></div>
</form>
<pre id="error" class="bad" role="alert" hidden></pre>
<svg id="graph" role="group" aria-label="Nodes and relationships of the result" hidden></svg>
<pre id="detail" aria-live="polite" hidden></pre>
<pre id="plan" hidden></pre>
<div id="scroll" class="scroll" tabindex="0" role="region" aria-label="Rows of the result" hidden><table id="rows"></table></div>
<script nonce="@NONCE@">
'use strict';
(function () {
  function $(id) { return document.getElementById(id); }
  var SVG = 'http://www.w3.org/2000/svg', COLOURS = ['#4c8dd6', '#d9822b', '#4fa36b', '#c95d8a', '#8a6fd1', '#b59a2a', '#3fa3a3', '#c4624f'];
  var running = false, moving = 0;
  function show(id, on) { $(id).toggleAttribute('hidden', !on); }  // SVG has no property for it
  // Maps of a query may look nearly alike.
  function isNode(v) { return Array.isArray(v.labels) && 'id' in v; }
  function isEdge(v) { return typeof v.type === 'string' && 'id' in v && 'start' in v && 'end' in v; }
  function inner(map) { return Object.keys(map || {}).map(function (k) { return k + ': ' + text(map[k], true); }).join(', '); }
  function text(v, quoted) {
    if (v === null) return 'null';
    if (typeof v === 'string') return quoted ? "'" + v + "'" : v;
    if (typeof v !== 'object') return String(v);
    if (Array.isArray(v)) return '[' + v.map(function (x) { return text(x, true); }).join(', ') + ']';
    var p = inner(v.properties);
    if (isNode(v)) return '(' + v.labels.map(function (l) { return ':' + l; }).join('') + (p ? ' {' + p + '}' : '') + ')';
    if (isEdge(v)) return '[:' + v.type + (p ? ' {' + p + '}' : '') + ']';
    if (Array.isArray(v.nodes) && Array.isArray(v.relationships)) return v.nodes.map(function (n, i) { return text(n) + (v.relationships[i] ? '–' + text(v.relationships[i]) + '–' : ''); }).join('');
    return '{' + inner(v) + '}';
  }
  function element(name, set, parent) {
    var e = document.createElementNS(SVG, name);
    Object.keys(set || {}).forEach(function (k) { e.setAttribute(k, set[k]); });
    if (parent) parent.appendChild(e);
    return e;
  }
  function nameOf(n) {
    var p = n.properties || {}, keys = Object.keys(p);
    var key = ['name', 'title', 'id'].find(function (k) { return k in p; }) || keys[0];
    var s = key ? text(p[key]) : (n.labels[0] || '#' + n.id);
    return s.length > 18 ? s.slice(0, 17) + '…' : s;
  }
  function draw(graph) {
    var svg = $('graph'), mine = ++moving;
    svg.textContent = '';
    show('graph', graph.nodes.length > 0);
    show('detail', false);
    if (!graph.nodes.length) return;
    var box = svg.getBoundingClientRect(), w = Math.max(box.width, 200), h = Math.max(box.height, 200);
    svg.setAttribute('viewBox', '0 0 ' + w + ' ' + h);
    var marker = element('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, element('defs', {}, svg));
    element('path', { d: 'M0 0 L8 4 L0 8 z' }, marker);
    var labels = [], at = {}, r = 13;
    var nodes = graph.nodes.map(function (n, i) {
      var l = n.labels[0] || '';
      if (labels.indexOf(l) < 0) labels.push(l);
      var angle = i * 2.4, far = 12 * Math.sqrt(i);
      return (at[n.id] = { it: n, x: w / 2 + far * Math.cos(angle), y: h / 2 + far * Math.sin(angle), vx: 0, vy: 0, colour: COLOURS[labels.indexOf(l) % COLOURS.length] });
    });
    var edges = graph.relationships.filter(function (e) { return at[e.start] && at[e.end]; }).map(function (e) {
      var g = element('g', { 'class': 'edge' }, svg), loop = e.start === e.end;
      var line = element(loop ? 'path' : 'line', { 'marker-end': 'url(#arrow)' }, g), name = element('text', { 'class': 'type' }, g);
      name.textContent = e.type;
      return { it: e, a: at[e.start], b: at[e.end], line: line, name: name };
    });
    nodes.forEach(function (n) {
      var g = n.g = element('g', { 'class': 'node', tabindex: 0, role: 'img', 'aria-label': text(n.it) }, svg);
      element('circle', { r: r, fill: n.colour }, g);
      element('text', { y: r + 12 }, g).textContent = nameOf(n.it);
      function tell() { $('detail').textContent = '#' + n.it.id + ' ' + text(n.it); show('detail', true); }
      g.addEventListener('focus', tell);
      g.addEventListener('keydown', function (e) {
        var d = { ArrowLeft: [-12, 0], ArrowRight: [12, 0], ArrowUp: [0, -12], ArrowDown: [0, 12] }[e.key];
        if (!d) return;
        e.preventDefault(); n.fixed = true; n.x += d[0]; n.y += d[1]; place();
      });
      g.addEventListener('pointerdown', function (e) { g.setPointerCapture(e.pointerId); n.fixed = n.held = true; });
      g.addEventListener('pointermove', function (e) {
        if (!n.held) return;
        var b = svg.getBoundingClientRect();
        n.x = (e.clientX - b.left) * w / b.width; n.y = (e.clientY - b.top) * h / b.height; place();
      });
      g.addEventListener('pointerup', function () { n.held = false; });
    });
    function place() {
      nodes.forEach(function (n) {
        n.x = Math.min(w - r - 2, Math.max(r + 2, n.x)); n.y = Math.min(h - r - 16, Math.max(r + 2, n.y));
        n.g.setAttribute('transform', 'translate(' + n.x.toFixed(1) + ' ' + n.y.toFixed(1) + ')');
      });
      edges.forEach(function (e) {
        var a = e.a, b = e.b, dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy) || 1, s = (r + 2) / d;
        if (a === b) e.line.setAttribute('d', 'M' + (a.x - 8) + ' ' + (a.y - r) + 'c-14 -28 30 -28 16 -1');
        else { e.line.setAttribute('x1', a.x + dx * s); e.line.setAttribute('y1', a.y + dy * s); e.line.setAttribute('x2', b.x - dx * s); e.line.setAttribute('y2', b.y - dy * s); }
        e.name.setAttribute('x', a.x + dx / 2); e.name.setAttribute('y', a.y + dy / 2 - (a === b ? 32 : 3));
      });
    }
    function step(heat) {
      var i, j, a, b, dx, dy, d, f, k = Math.sqrt(w * h / nodes.length) * 0.55;
      for (i = 0; i < nodes.length; i++) for (j = i + 1; j < nodes.length; j++) {
        a = nodes[i]; b = nodes[j]; dx = a.x - b.x; dy = a.y - b.y || 0.1; d = Math.max(dx * dx + dy * dy, 25); f = k * k / d;
        a.vx += dx / Math.sqrt(d) * f; a.vy += dy / Math.sqrt(d) * f; b.vx -= dx / Math.sqrt(d) * f; b.vy -= dy / Math.sqrt(d) * f;
      }
      edges.forEach(function (e) {
        var x = e.b.x - e.a.x, y = e.b.y - e.a.y, far = Math.hypot(x, y), pull = (far - k) * 0.08;
        if (far) { x = x / far * pull; y = y / far * pull; e.a.vx += x; e.a.vy += y; e.b.vx -= x; e.b.vy -= y; }
      });
      nodes.forEach(function (n) {
        n.vx += (w / 2 - n.x) * 0.01; n.vy += (h / 2 - n.y) * 0.01;
        var v = Math.hypot(n.vx, n.vy), most = 30 * heat;
        if (v > most) { n.vx *= most / v; n.vy *= most / v; }
        if (!n.fixed) { n.x += n.vx; n.y += n.vy; }
        n.vx *= 0.6; n.vy *= 0.6;
      });
    }
    var left = 240, calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    (function tick() {
      if (mine !== moving) return;
      for (var n = calm ? left : 4; n > 0 && left > 0; n--) step(left-- / 240);
      place();
      if (left > 0) requestAnimationFrame(tick);
    })();
  }
  function table(answer) {
    var t = $('rows');
    t.textContent = '';
    show('scroll', answer.columns.length > 0);
    if (!answer.columns.length) return;
    var head = t.createTHead().insertRow(), body = t.createTBody();
    answer.columns.forEach(function (c) { var th = document.createElement('th'); th.scope = 'col'; th.textContent = c; head.appendChild(th); });
    answer.rows.forEach(function (row) { var tr = body.insertRow(); row.forEach(function (v) { tr.insertCell().textContent = text(v); }); });
  }
  function fail(message) { $('error').textContent = message; show('error', true); $('state').textContent = ''; }
  function run() {
    if (running) return;
    running = true; $('run').disabled = true; $('state').textContent = 'running…';
    ['error', 'graph', 'detail', 'plan', 'scroll'].forEach(function (id) { show(id, false); });
    fetch('/query', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ query: $('query').value }) })
      .then(function (r) { return r.json(); })
      .then(function (a) {
        if (a.error) return fail(a.error.code + '\n' + a.error.message);
        table(a); draw(a.graph);
        if (a.plan) { $('plan').textContent = a.plan; show('plan', true); }
        $('state').textContent = (a.columns.length ? a.rows.length + (a.rows.length === 1 ? ' row' : ' rows') : '') + (a.truncated ? ', and more that were left out' : '') +
          (a.changes ? (a.columns.length ? '; ' : '') + a.changes : '') + (a.notice ? ' nothing changed: ' + a.notice : '') + ' (' + a.milliseconds + ' ms)';
      })
      .catch(function (e) { fail('The server does not answer: ' + e.message); })
      .then(function () { running = false; $('run').disabled = false; });
  }
  $('form').addEventListener('submit', function (e) { e.preventDefault(); run(); });
  $('query').addEventListener('keydown', function (e) { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); run(); } });
})();
</script></body></html>
)page";

}  // namespace pulse
