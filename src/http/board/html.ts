/** Pages made here: whatever is put into one is text, unless it was made by this very function. */

export class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (found) => ENTITIES[found]!)

type Value = Html | string | number | null | false | readonly Value[]

const render = (value: Value): string => {
  if (value instanceof Html) return value.text
  if (value === null || value === false) return ''
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value))
  return value.map(render).join('')
}

export const html = (strings: TemplateStringsArray, ...values: Value[]): Html =>
  new Html(strings.reduce((text, string, i) => text + render(values[i - 1] ?? null) + string))
