/** Splits an event stream into events. */
import { createParser as createEventParser } from 'eventsource-parser'
import { createFrameCompleter } from './frames.js'

/** More than any event of the feed; a stream beyond it is none. */
const MAX_EVENT_CHARACTERS = 1_000_000

/** A function to be fed text as it comes. It throws where an event has no end. */
export const createParser = (onEvent, onRetry) => {
  const complete = createFrameCompleter()
  const parser = createEventParser({
    onEvent: ({ id, event, data }) =>
      onEvent({
        ...(id !== undefined && { id }),
        ...(event !== undefined && { event }),
        ...(data !== '' && { data }),
      }),
    onRetry,
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') throw error
    },
    maxBufferSize: MAX_EVENT_CHARACTERS,
  })
  return (text) => parser.feed(complete(text))
}
