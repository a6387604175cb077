import { useEffect } from 'preact/hooks'
import * as state from '../state'
import { Butterfly } from './Butterfly'
import { CallTree } from './CallTree'
import { Filters } from './Filters'
import { FlameTab } from './FlameTab'
import { Header } from './Header'
import { Source } from './Source'
import { Table } from './Table'
import { Timeline } from './Timeline'
import { Waits } from './Waits'

const TABS: [state.Tab, string, () => preact.JSX.Element][] = [
  ['flame', 'Flame graph', FlameTab],
  ['table', 'Table', Table],
  ['butterfly', 'Callers and callees', Butterfly],
  ['source', 'Source', Source],
  ['tree', 'Call tree', CallTree],
  ['waits', 'Waits', Waits],
]
const tabs = () => TABS.filter(([key]) => key !== 'waits' || state.hasReasons.value)

export function App() {
  const { tab } = state
  useEffect(() => {
    const argv = state.profile.value.about.header.argv
    if (Array.isArray(argv) && argv.length) document.title = `${argv.map(String).join(' ').slice(0, 200)} · spprof`
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  const there = tabs()
  const View = (there.find(([key]) => key === tab.value) ?? there[0]!)[2]
  return (
    <>
      <Header />
      <Timeline />
      <Filters />
      <div role="tablist" aria-label="Views" class="tabs">
        {there.map(([key, title], i) => (
          <button type="button" role="tab" key={key} id={`tab-${key}`} aria-selected={tab.value === key} aria-controls="panel"
            tabIndex={tab.value === key ? 0 : -1} onClick={() => (tab.value = key)}
            onKeyDown={(event) => {
              const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
              if (!by) return
              tab.value = there[(i + by + there.length) % there.length]![0]
              document.getElementById(`tab-${tab.value}`)!.focus()
            }}>
            {title} <kbd aria-hidden="true">{i + 1}</kbd>
          </button>
        ))}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
        <View />
      </div>
      <p id="flame-keys" class="keys">
        <kbd>↑</kbd><kbd>↓</kbd><kbd>←</kbd><kbd>→</kbd> walk · <kbd>Enter</kbd> zoom to box · <kbd>+</kbd><kbd>-</kbd> or wheel zoom ·{' '}
        <kbd>Shift</kbd> wheel scroll · <kbd>Esc</kbd> whole graph · <kbd>c</kbd> callers and callees · <kbd>s</kbd> source · <kbd>/</kbd> search · <kbd>?</kbd> all keys
      </p>
      {state.helping.value && <Help />}
    </>
  )
}

function onKey(event: KeyboardEvent): void {
  const typing = event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
  if (event.key === 'Escape' && state.helping.value) state.helping.value = false
  else if (event.key === 'Escape' && (event.target as HTMLElement).id === 'search') {
    state.search.value = ''
    ;(event.target as HTMLElement).blur() // so that the next key is a command again
  }
  else if (typing || event.ctrlKey || event.metaKey || event.altKey) return
  else if (event.key === '/') document.getElementById('search')!.focus()
  else if (event.key === '?') state.helping.value = !state.helping.value
  else if (event.key === 'r') state.clearFilters()
  else if (tabs()[Number(event.key) - 1]) state.tab.value = tabs()[Number(event.key) - 1]![0]
  else return
  event.preventDefault()
}

const KEYS: [string, string][] = [
  ['1 2 3 4 5 6', 'flame graph, table, callers and callees, source, call tree, waits'],
  ['/', 'search; Esc in the field clears and leaves it'],
  ['r', 'look at all again: no search, no filter'],
  ['?', 'this list'],
  ['↑ ↓ ← →', 'in a flame graph: caller, callee, neighbours'],
  ['Enter', 'zoom to the selected box'],
  ['+ -', 'zoom in and out; also the mouse wheel'],
  ['Shift ← →', 'move left and right; also by dragging'],
  ['PageUp PageDown', 'move up and down; also Shift and the wheel'],
  ['Esc 0 Home', 'the whole graph'],
  ['c', 'callers and callees of the selected box'],
  ['s', 'source of the selected box'],
  ['m', 'merge the selected function into its callers'],
  ['f', 'fold what the selected function calls into it'],
  ['h', 'hide the package of the selected function: its time goes to its callers'],
]

function Help() {
  return (
    <div class="help" role="dialog" aria-label="Keys">
      <table>
        <tbody>
          {KEYS.map(([keys, what]) => (
            <tr key={keys}><td>{keys.split(' ').map((key) => <kbd key={key}>{key}</kbd>)}</td><td>{what}</td></tr>
          ))}
        </tbody>
      </table>
      <button type="button" onClick={() => (state.helping.value = false)}>Close</button>
    </div>
  )
}
