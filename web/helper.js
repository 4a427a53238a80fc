/**
 * A helper thread: an instance of the core over the memory of another one, on a stack of its own. Told once where
 * everything is, it is in the core from then on until the core stops it or its worker is ended. Says nothing but why it
 * failed.
 */

self.onmessage = ({ data: { module, memory, threads, helper, stack } }) => {
  try {
    /** @type {any} */
    const f = new WebAssembly.Instance(module, { env: { memory } }).exports;
    f.__stack_pointer.value = stack;
    f.areole_threads_help(threads, helper);
    self.close();
  } catch (error) {
    self.postMessage({ message: String(error) });
  }
};
