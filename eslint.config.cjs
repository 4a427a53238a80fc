// What eslint checks in web/. CommonJS, so that NODE_PATH finds the packages in build.py's cache.
const js = require("@eslint/js");
const globals = require("globals");

module.exports = [
  { ignores: ["build/"] },
  js.configs.recommended,
  {
    files: ["web/**/*.js"],
    languageOptions: {
      ecmaVersion: 2024,
      sourceType: "module",
      globals: { ...globals.browser, ...globals.worker },
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-console": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-shadow": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      // Values reach Python and the document as values, never inside source text.
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Build nodes, or set textContent." },
        { property: "outerHTML", message: "Build nodes, or set textContent." },
        { property: "insertAdjacentHTML", message: "Build nodes, or set textContent." },
        { property: "runPython", message: "Call a function of areole.bridge with arguments." },
        { property: "runPythonAsync", message: "Call a function of areole.bridge with arguments." },
      ],
    },
  },
  {
    files: ["**/*.cjs"],
    languageOptions: { sourceType: "commonjs", globals: globals.node },
  },
];
