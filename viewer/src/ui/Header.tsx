// What was profiled, how, and what was lost.
import { baseName } from '../data/labels'
import { count, MOST_UNKNOWN, percent, plural, share, time } from '../format'
import * as state from '../state'
import { Choice } from './Choice'
import { clip } from './FlameGraph'

// What took samples at no random instant, by clock (src/spprof/report/tick_stats.py).
const TOOK: Record<string, string> = { gil: 'hand-overs of the GIL', signal: 'instants that the scheduler chose, or its own tick' }
const MUCH_LOST = 0.05 // no share is off by more than what was lost, so a little is no alarm
const LITTLE_UNKNOWN = 0.01 // less than chance alone has shares be off

// Words for what the header of a profile has; the rest is named as it is there.
const WORDS: Record<string, string> = {
  pid: 'process', platform: 'system', mode: 'time', interval_ns: 'a sample every', start_unix_ns: 'began at', max_depth: 'frames of a stack, at most', native: 'native frames',
  begun: 'begun by', run: 'run, as its other processes name it', source: 'file of',
}

// What a key of the header says, and its value.
function inWords(key: string, value: unknown): [string, string] {
  const words = WORDS[key] ?? key.replace(/(_unix)?_ns$/, '').replaceAll('_', ' ')
  if (typeof value === 'boolean') return [words, value ? 'yes' : 'no']
  if (typeof value !== 'number') return [words, text(value)]
  if (key.endsWith('_unix_ns')) return [words, new Date(value / 1e6).toLocaleString()]
  return [words, key.endsWith('_ns') ? time(value) : text(value)]
}

// Of no use to people: an instant of a clock that began at no known time, the format of the file.
const LEFT_OUT = new Set(['start_ns', 'version'])

const text = (value: unknown): string => (value === undefined || value === null ? '' : String(value))

export function Header() {
  const { types } = state
  const { about, threads, duration, unit, counts, timed } = state.profile.value
  const { header, stats, losses } = about
  const all = state.everything.value
  const words = Array.isArray(header.argv) ? header.argv.map(text) : [text(header.argv)]
  const argv = words.join(' ')
  const title = [baseName(words[0] ?? ''), ...words.slice(1)].join(' ') // the folder is in the tip
  const interval = counts ? 0 : Number(header.interval_ns) || 0
  const events = Array.isArray(header.events) ? (header.events as Record<string, unknown>[]) : []
  const period = events.find((event) => event?.name === header.event)?.period
  const expected = Number(stats.expected) || 0
  const lost = Number(stats.dropped) || 0
  const chips: [string, string][] = [
    [about.measured, state.figure(all.totalNs)],
    ...(state.offCpu.value
      ? [['on CPU', state.figure(all.totalNs - state.offCpu.value)], ['off CPU', state.figure(state.offCpu.value)]] as [string, string][]
      : []),
    ['samples', counts === 'samples' ? '' : count(all.totalSamples)],
    ['lasted', timed ? time(duration * unit) : ''],
    ['threads', count(threads.length)],
    ['a sample for', counts && period ? `${count(Number(period))} ${counts}` : ''],
    ['rate', counts ? '' : interval ? `${count(Math.round(1e9 / interval))} Hz${about.clock ? `, ${about.clock}` : ''}` : text(about.clock)],
    ['Python', text(header.python).split(' ')[0] ?? ''],
  ]
  return (
    <header>
      <div class="title">
        <h1 title={clip(argv)}>{clip(title) || 'spprof'}</h1>
        {types.value.length > 1 && (
          <Choice label="Samples of" value={String(state.type.value)} onChange={(value) => (state.type.value = Number(value))}
            options={types.value.map(({ type }, i) => [String(i), type] as const)} />
        )}
        <dl class="chips">
          {chips.filter(([, value]) => value).map(([key, value]) => (
            <div key={key}><dt>{key}</dt><dd>{value}</dd></div>
          ))}
          {expected > 0 && (
            <div class={lost > MUCH_LOST * expected ? 'bad' : ''}><dt>lost</dt><dd>{percent(share(lost, expected))}</dd></div>
          )}
        </dl>
        <details class="tick-stats">
          <summary>Tick stats</summary>
          <div class="popup">
            {expected > 0 ? (
              <table aria-label="What became of every tick">
                <tbody>
                  <tr><td class="number">{count(expected)}</td><td>ticks expected</td></tr>
                  <tr><td class="number">{count(Number(stats.taken) || 0)}</td><td>taken</td></tr>
                  {Number(stats.repeated) > 0 && <tr><td class="number">{count(Number(stats.repeated))}</td><td>repeated: the thread stood still</td></tr>}
                  {losses.map(([key, title, ticks]) => (
                    <tr key={key}><td class="number">{count(ticks)}</td><td>lost: {title}</td></tr>
                  ))}
                </tbody>
              </table>
            ) : <p>{header.source ? `A file of another profiler (${text(header.source)}) has no tick stats.` : 'The tick stats were not written.'}</p>}
            <table aria-label="The run">
              <tbody>
                {Object.entries(header).filter(([key, value]) => typeof value !== 'object' && value !== '' && !LEFT_OUT.has(key)).map(([key, value]) => {
                  const [words, shown] = inWords(key, value)
                  return <tr key={key}><td class="dim">{words}</td><td>{clip(shown)}</td></tr>
                })}
                <tr><td class="dim">page by</td><td>spprof {about.spprof}</td></tr>
              </tbody>
            </table>
          </div>
        </details>
        <span class="grow" />
        <button type="button" class="icon" aria-pressed={state.dark.value} title="Dark or light"
          onClick={() => (state.themeChoice.value = state.dark.value ? 'light' : 'dark')}>
          {state.dark.value ? 'Light' : 'Dark'}
        </button>
        <button type="button" class="icon" aria-expanded={state.helping.value} onClick={() => (state.helping.value = !state.helping.value)}>Keys ?</button>
      </div>
      {about.warning && <p class="warning" role="alert">{about.warning}</p>}
      {share(all.unknownNs, all.totalNs) > (about.clock === 'signal' ? LITTLE_UNKNOWN : 0) && (
        <p class="warning" role="note">
          {percent(share(all.unknownNs, all.totalNs))} of the {state.kind.value} was sampled at {TOOK[about.clock] ?? "the kernel's own tick"}, which the
          program may be in step with: {share(all.unknownNs, all.totalNs) > MOST_UNKNOWN ? 'ranges are not known (?)' : 'ranges are that much wider'}. docs/intervals.md
          says what to do.
        </p>
      )}
      {all.totalSamples === 0 && <p class="warning" role="alert">No samples were taken. {plural(expected, 'tick')} expected.</p>}
    </header>
  )
}
