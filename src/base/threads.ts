/** Worker threads, from the built program as from its TypeScript sources. */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/**
 * Node reads no TypeScript: from the sources, as tests run them, a thread begins with a script that
 * installs their loader and then imports the module.
 */
const fromSource = (module: URL): string => {
  // Resolved here, since the script would look from the working directory. Only an import registers.
  const loader = createRequire(module)
    .resolve('tsx/esm/api')
    .replace(/\.cjs$/, '.mjs')
  const [api, code] = [pathToFileURL(loader).href, module.href].map((url) => JSON.stringify(url))
  return `import(${api}).then(({ register }) => { register(); return import(${code}) })`
}

/**
 * Starts the module `name` that lies beside `beside` (an `import.meta.url`) as a thread. It gets none
 * of the environment, which holds secrets, and does not keep the process alive.
 */
export const startThread = (name: string, beside: string, options: WorkerOptions = {}): Worker => {
  const isSource = beside.endsWith('.ts')
  const module = new URL(`${name}${isSource ? '.ts' : '.js'}`, beside)
  const bare: WorkerOptions = { env: {}, execArgv: [], ...options }
  const worker = isSource
    ? new Worker(fromSource(module), { ...bare, eval: true })
    : new Worker(module, bare)
  worker.unref()
  return worker
}
