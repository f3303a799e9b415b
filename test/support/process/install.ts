/**
 * An install of switchboard's embedded part in a folder of its own, as npm --ignore-scripts leaves
 * it: real files, no links between the libraries. For what depends on where the code lies and on
 * who may read it.
 */
import fs from 'node:fs'
import path from 'node:path'
import { PACKAGE } from '../../../src/embedded/binaries.ts'
import { ROOT } from './child.ts'

const modules = path.join(ROOT, 'node_modules')

/** The packages that these need, and so on. */
const withDependencies = (names: string[], found = new Set<string>()): Set<string> => {
  for (const name of names) {
    const home = path.join(modules, name)
    if (found.has(name) || !fs.existsSync(home)) continue
    found.add(name)
    const needs = JSON.parse(fs.readFileSync(path.join(home, 'package.json'), 'utf8'))
    const { dependencies = {}, optionalDependencies = {} } = needs
    withDependencies(Object.keys({ ...dependencies, ...optionalDependencies }), found)
  }
  return found
}

const isLink = (file: string): boolean => fs.lstatSync(file).isSymbolicLink()

export const install = (folder: string): void => {
  const copy = (name: string, filter = (_: string) => true) =>
    fs.cpSync(path.join(ROOT, name), path.join(folder, name), { recursive: true, filter })
  for (const name of ['package.json', 'src/embedded.ts', 'src/embedded']) copy(name)
  copy('test/support/process/embedded-child.ts')
  for (const name of withDependencies(['pg', 'tsx'])) copy(`node_modules/${name}`)
  copy(`node_modules/${PACKAGE}`, (file) => !isLink(file))
}

/** A copy of a folder whose files are those of the first, by hard links: quick, however many. */
export const linkTree = (from: string, to: string): void => {
  fs.mkdirSync(to, { recursive: true })
  for (const entry of fs.readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)]
    if (entry.isDirectory()) linkTree(source, target)
    else if (entry.isSymbolicLink()) fs.symlinkSync(fs.readlinkSync(source), target)
    else fs.linkSync(source, target)
  }
}
