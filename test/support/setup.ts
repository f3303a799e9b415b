/** Runs before each test file: what its tests have started ends with it. */
import { afterAll } from 'vitest'
import { endOfFile } from './child.ts'

afterAll(endOfFile)
