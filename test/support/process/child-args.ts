/**
 * How a TypeScript file of this project is run as a process of its own: from the build, where TEST_BUILT
 * says that it is fresh (as `npm test` does), else from the sources, which takes half a second longer.
 */
import path from 'node:path'

/** Arguments for node, which must run in the root of the project. */
export const childArgs = (file: string): string[] =>
  process.env.TEST_BUILT === '1'
    ? [path.join('dist', file.replace(/\.ts$/, '.js'))]
    : ['--import', 'tsx', file]
