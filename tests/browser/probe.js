// Runs in the page under test and leaves what it found in the attribute data-probe of <html>.
(function () {
  'use strict';
  var problems = [];
  var facts = {};
  function bad(text) { if (problems.length < 40) problems.push(text); }

  addEventListener('securitypolicyviolation', function (e) {
    bad('network: ' + e.blockedURI + ' was asked for');
  });
  addEventListener('error', function (e) { bad('script: ' + (e.message || 'an error')); }, true);

  function colour(element, property) { return getComputedStyle(element)[property]; }
  function parts(text) { return (text.match(/[\d.]+/g) || []).slice(0, 3).map(Number); }
  function luminance(text) {
    var c = parts(text).map(function (v) {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
  }
  function contrast(a, b) {
    var x = luminance(a), y = luminance(b);
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  }

  function checkCharts() {
    var charts = document.querySelectorAll('svg.chart');
    facts.charts = charts.length;
    facts.marks = 0;
    charts.forEach(function (svg, number) {
      var name = 'chart ' + (number + 1) + ' (' + (svg.getAttribute('aria-label') || '').slice(0, 40) + ')';
      var box = svg.getBoundingClientRect();
      if (svg.getAttribute('role') !== 'img' || !svg.getAttribute('aria-label')) {
        bad('chart: ' + name + ' has no words for who cannot see it');
      }
      var marks = svg.querySelectorAll('.mark');
      var seen = 0;
      marks.forEach(function (mark) {
        var m = mark.getBoundingClientRect();
        if (!mark.querySelector('title')) bad('chart: ' + name + ' has a mark without a title');
        if (m.width > 0 && m.height > 0 && m.left >= box.left - 1 && m.right <= box.right + 1 &&
            m.top >= box.top - 1 && m.bottom <= box.bottom + 1) ++seen;
      });
      facts.marks += seen;
      if (seen === 0) bad('chart: ' + name + ' has no mark to see');
      if (seen !== marks.length) bad('chart: ' + name + ' has marks outside of it');
      var wide = svg.viewBox.baseVal.width, high = svg.viewBox.baseVal.height;
      var values = [];
      svg.querySelectorAll('text').forEach(function (text) {
        var b = text.getBBox();
        if (b.x < -1 || b.x + b.width > wide + 1 || b.y < -1 || b.y + b.height > high + 1) {
          bad('chart: ' + name + ' cuts off "' + text.textContent + '"');
        }
        if (contrast(colour(text, 'fill'), colour(document.body, 'backgroundColor')) < 4.5) {
          bad('colours: ' + name + ' has text that is hard to read');
        }
        values.push([b, text.textContent]);
      });
      for (var i = 0; i < values.length; ++i) {
        for (var j = 0; j < i; ++j) {
          var a = values[i][0], c = values[j][0];
          if (a.x < c.x + c.width - 2 && c.x < a.x + a.width - 2 && a.y < c.y + c.height - 3 &&
              c.y < a.y + a.height - 3) {
            bad('chart: ' + name + ' has "' + values[i][1] + '" on "' + values[j][1] + '"');
          }
        }
      }
    });
  }

  function checkPage() {
    facts.width = innerWidth;
    // The opening: a chart for each paper, above all sections.
    facts.highlights = document.querySelectorAll('.highlights svg.chart').length;
    // Tables that are folded up must fit, too.
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
    facts.dark = luminance(colour(document.body, 'backgroundColor')) < 0.2;
    facts.sections = [].map.call(document.querySelectorAll('main section'),
                                 function (s) { return s.id; });
    var overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (overflow > 0) bad('overflow: the page is ' + overflow + ' px wider than its window');
    if (contrast(colour(document.body, 'color'), colour(document.body, 'backgroundColor')) < 7) {
      bad('colours: the text is hard to read');
    }
    document.querySelectorAll('[src], [href], [srcset]').forEach(function (e) {
      var to = e.getAttribute('src') || e.getAttribute('href') || e.getAttribute('srcset');
      if (to[0] === '#') {
        if (to !== '#' && !document.getElementById(to.slice(1))) bad('link: ' + to + ' leads nowhere');
      } else if (to.indexOf('data:') !== 0) {
        bad('network: refers to ' + to);
      }
    });
    performance.getEntriesByType('resource').forEach(function (e) {
      if (e.name.indexOf('data:') !== 0) bad('network: loaded ' + e.name);
    });
    document.querySelectorAll('.scroll').forEach(function (region) {
      // Narrow pages scroll wide tables within their region.
      if (innerWidth >= 1200 && region.scrollWidth > region.clientWidth + 1) {
        bad('overflow: a table is cut off: ' + region.getAttribute('aria-label'));
      }
    });
    document.querySelectorAll('.targets td').forEach(function (cell) {
      var b = cell.getBoundingClientRect();
      if (b.right > innerWidth + 1 || b.left < -1) bad('overflow: a target is cut off');
    });
    document.querySelectorAll('table').forEach(function (table) {
      if (!table.caption || !table.querySelector('tbody th[scope=row]')) {
        bad('table: no caption or no row headers');
      }
    });
  }

  function checkButton() {
    var button = document.getElementById('theme');
    if (!button || button.hidden) return bad('button: there is none for the colours');
    var before = colour(document.body, 'backgroundColor');
    button.click();
    if (colour(document.body, 'backgroundColor') === before) bad('button: it changes no colours');
    checkCharts();
    button.click();
    if (colour(document.body, 'backgroundColor') !== before) bad('button: it does not change back');
  }

  addEventListener('load', function () {
    try {
      checkPage();
      checkCharts();
      checkButton();
    } catch (e) {
      bad('script: the probe failed: ' + e);
    }
    var answer = JSON.stringify({problems: problems, facts: facts});
    document.documentElement.setAttribute('data-probe', answer);
    if (parent !== window) parent.postMessage(answer, '*');  // from the frame of a narrow page
  });
})();
