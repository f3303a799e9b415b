/** Runs before each test file: what its tests have started ends with it. */
import { afterAll } from 'vitest'
import { endOfFile } from './process/child.ts'

afterAll(endOfFile)
