/**
 * What a message or an artifact is made of, shown so that none of it can act: text as text, data as
 * a tree, images only of kinds that hold no script, everything else to be saved to a file.
 */
import { ref } from 'lit/directives/ref.js'
import { html, nothing, render } from 'lit/html.js'

const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'])
const MAX_IMAGE = 4_000_000
const MAX_CHILDREN = 200
const OPEN_TO = 2

const leaf = (value) =>
  html`<span class=${`leaf ${value === null ? 'null' : typeof value}`} dir="auto"
    >${typeof value === 'string' ? JSON.stringify(value) : String(value)}</span
  >`

const entriesOf = (value) =>
  Array.isArray(value) ? value.map((item, i) => [String(i), item]) : Object.entries(value)

const count = (value) => (Array.isArray(value) ? value : Object.keys(value)).length

const sizeWord = (value) => (Array.isArray(value) ? `[${count(value)}]` : `{${count(value)}}`)

const rows = (value, depth) => {
  const rest = count(value) - MAX_CHILDREN
  const shown = entriesOf(value).slice(0, MAX_CHILDREN)
  return html`<ul>
    ${shown.map(([key, item]) => html`<li>${tree(item, depth + 1, html`<bdi class="key">${key}</bdi>: `)}</li>`)}
    ${rest > 0 ? html`<li>and ${rest} more</li>` : ''}
  </ul>`
}

/** A branch is made when it is opened, so that a large tree costs what one looks at. */
const branch = (value, depth, name) => {
  const fill = (details) =>
    render(details.open ? rows(value, depth) : nothing, details.lastElementChild)
  return html`<details
    class="tree"
    ?open=${depth < OPEN_TO}
    @toggle=${({ currentTarget }) => fill(currentTarget)}
    ${ref((details) => details && fill(details))}
  >
    <summary>${name}${sizeWord(value)}</summary>
    <div></div>
  </details>`
}

const tree = (value, depth = 0, name = '') =>
  value === null || typeof value !== 'object'
    ? html`${name}${leaf(value)}`
    : branch(value, depth, name)

const bytesOf = (raw) => {
  const binary = atob(raw.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(binary, (char) => char.charCodeAt(0))
}

/** A file's name as it came may be a path, or turn itself around. */
const safeName = (name) => name.replace(/[^\p{L}\p{N}._ -]+/gu, '_').slice(-100) || 'file'

const save = (raw, name) => {
  // As bytes of no kind: a browser saves them and does not look at them.
  const url = URL.createObjectURL(new Blob([bytesOf(raw)], { type: 'application/octet-stream' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: safeName(name) })
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

const size = (raw) => {
  const bytes = Math.floor((raw.length * 3) / 4)
  return bytes < 1024 ? `${bytes} bytes` : `${Math.ceil(bytes / 1024)} KB`
}

const file = ({ raw, filename, mediaType }) => {
  const name = filename ?? 'file'
  const isImage = IMAGES.has(mediaType) && raw.length <= MAX_IMAGE
  const src = isImage
    ? `data:${mediaType};base64,${raw.replaceAll('-', '+').replaceAll('_', '/')}`
    : ''
  return html`<figure>
    ${isImage ? html`<img src=${src} alt=${name} />` : ''}
    <figcaption>
      <button type="button" class="second" @click=${() => save(raw, name)}>Save <bdi>${name}</bdi></button>
      <span dir="auto">${mediaType ?? ''}</span> <span>${size(raw)}</span>
    </figcaption>
  </figure>`
}

const isWeb = (url) => URL.canParse(url) && ['http:', 'https:'].includes(new URL(url).protocol)

const link = ({ url, filename, mediaType }) => html`<p class="words">
  ${
    isWeb(url)
      ? html`<a href=${url} target="_blank" rel="noopener noreferrer" dir="auto">${filename ? `${filename} (${url})` : url}</a>`
      : html`<span dir="auto">${url}</span>`
  }
  <span dir="auto">${mediaType ?? ''}</span>
</p>`

export const part = (given) => {
  if (given.text !== undefined) return html`<p class="words" dir="auto">${given.text}</p>`
  if (given.raw !== undefined) return file(given)
  if (given.url !== undefined) return link(given)
  return html`<div class="data">${tree(given.data)}</div>`
}
