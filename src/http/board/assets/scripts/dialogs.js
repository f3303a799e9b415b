/** Small dialogs: one to confirm, one to copy something, and the list of keys. */
import { html, render } from 'lit/html.js'

const KEYS = [
  ['j k', 'next and previous todo'],
  ['h l', 'lane to the left and to the right'],
  ['Enter', 'open the todo'],
  ['a', 'answer it, or the most urgent question'],
  ['w', 'why it waits'],
  ['c', 'cancel it'],
  ['r', 'retry a dead letter'],
  ['d', 'dead letters only'],
  ['/', 'search'],
  ['q', 'choose a queue'],
  ['Esc', 'leave, close'],
  ['?', 'these keys'],
]

const open = (content) => {
  const dialog = document.createElement('dialog')
  render(content, dialog)
  document.body.append(dialog)
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove()
      resolve(dialog.returnValue)
    })
    dialog.showModal()
  })
}

export const dialogs = {
  confirm: async (question, yes, no) =>
    (await open(html`<form method="dialog">
      <p dir="auto">${question}</p>
      <p class="actions"><button value="yes">${yes}</button> <button class="second" value="no">${no}</button></p>
    </form>`)) === 'yes',

  copy: (title, text) => {
    const copied = ({ target }) => {
      const done = () => {
        target.textContent = 'Copied'
      }
      const area = target.closest('dialog').querySelector('textarea')
      area.select()
      // Without TLS there is no clipboard to write to, so the text is selected for Ctrl-C.
      void navigator.clipboard?.writeText(text).then(done, () => undefined)
    }
    return open(html`<form method="dialog">
      <label for="copied">${title}</label>
      <textarea id="copied" rows="8" readonly .value=${text}></textarea>
      <p class="actions">
        <button type="button" @click=${copied}>Copy</button> <button class="second" value="">Close</button>
      </p>
    </form>`)
  },

  keys: () =>
    open(html`<form method="dialog" aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        ${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}
      </dl>
      <p class="actions"><button value="">Close</button></p>
    </form>`),
}
