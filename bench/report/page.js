// Colours follow the reader's setting until the button is pressed.
(function () {
  var root = document.documentElement, button = document.getElementById('theme');
  var dark = matchMedia('(prefers-color-scheme: dark)');
  function now() { return root.dataset.theme || (dark.matches ? 'dark' : 'light'); }
  function name() { button.textContent = now() === 'dark' ? 'Light colours' : 'Dark colours'; }
  button.addEventListener('click', function () {
    root.dataset.theme = now() === 'dark' ? 'light' : 'dark';
    name();
  });
  dark.addEventListener('change', name);
  addEventListener('beforeprint', function () {
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
  });
  button.hidden = false;
  name();
})();
