// What was waited for, and who held it meanwhile: both sides of each holder.
import { useMemo } from 'preact/hooks'
import { weighted } from '../data/tree'
import { holderKey, holdersOf, reasonSums, someSums, type Holder } from '../data/waits'
import { reasonCss } from '../draw/colour'
import { count, interval, percent, share } from '../format'
import * as state from '../state'
import { Half } from './Butterfly'
import { clip } from './FlameGraph'

const LISTED = 12
const WAITERS = 3

export function Waits() {
  const profile = state.profile.value
  const sums = state.sums.value
  const { filter, holder } = state
  const rows = reasonSums(profile, sums).filter(({ ns }) => ns > 0).sort((a, b) => b.ns - a.ns)
  const holders = useMemo(() => holdersOf(profile, filter.value), [profile, filter.value])
  const chosen = holders.find(({ key }) => key === holder.value) ?? holders[0]
  const toggle = (reason: string) => (filter.value = { ...filter.value, reason: filter.value.reason === reason ? null : reason })
  const figures = (ns: number, samples: number) => (
    <>
      <td class="number">{state.figure(ns)}</td>
      <td class="number share" style={{ '--share': share(ns, sums.totalNs) }}>{percent(share(ns, sums.totalNs))}</td>
      <td class="number dim">{interval(ns, sums)}</td>
      <td class="number">{count(samples)}</td>
    </>
  )
  const heads = ['Time', 'Share', '95 % range', 'Samples'].map((text) => <th scope="col" key={text}>{text}</th>)
  return (
    <div class="scroll butterfly">
      <table class="figures" aria-label="What was waited for">
        <thead><tr>{heads}<th scope="col" class="wide">Waiting for</th></tr></thead>
        <tbody>
          {rows.map(({ reason, ns, samples }) => (
            <tr key={reason}>
              {figures(ns, samples)}
              <td class="wide">
                <span class="swatch" style={{ background: reasonCss(reason, state.dark.value) }} />
                <button type="button" class="link" aria-pressed={filter.value.reason === reason} title="Look at this time only" onClick={() => toggle(reason)}>{reason}</button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">No samples here.</p>}
      {holders.length > 0 && (
        <table class="figures" aria-label="Held by">
          <caption>Held by, and what threads waited for it</caption>
          <thead><tr>{heads}<th scope="col" class="wide">Holder</th><th scope="col" class="waiters">Waited for it</th></tr></thead>
          <tbody>
            {holders.slice(0, LISTED).map((one) => (
              <tr key={one.key}>
                {figures(one.ns, one.samples)}
                <td class="wide">
                  <button type="button" class="link" aria-pressed={one === chosen} title="Where threads waited for it, and what it did meanwhile" onClick={() => (holder.value = one.key)}>
                    {titleOf(one)}
                  </button>
                </td>
                <td class="waiters dim">{waitersOf(one)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {holders.length > LISTED && <p class="dim">{count(holders.length - LISTED)} more, for whom threads waited less: a filter of threads or time shows them.</p>}
      {chosen && <Sides of={chosen} />}
    </div>
  )
}

const titleOf = ({ reason, text }: Holder): string => `${reason}: ${clip(text) || (reason === 'the GIL' ? 'unknown' : 'unknown, or no owner')}`

function waitersOf({ waiters }: Holder): string {
  const named = waiters.slice(0, WAITERS).map(([place, ns]) => `${clip(state.profile.value.threads[place]!.name)} ${state.figure(ns)}`)
  return [...named, ...(waiters.length > WAITERS ? [`${count(waiters.length - WAITERS)} more`] : [])].join(', ')
}

function Sides({ of }: { of: Holder }) {
  const profile = state.profile.value
  const [tree, sums] = [state.tree.value, state.sums.value]
  const mine = useMemo(() => {
    const keys = [null, ...profile.waits.map((_, i) => holderKey(profile, i + 1))]
    return someSums(sums, (stack) => keys[profile.waited[stack]!] === of.key)
  }, [profile, sums, of.key])
  const waiters = useMemo(() => weighted(profile, tree, mine), [profile, tree, mine])
  const holder = useMemo(() => weighted({ ...profile, stacks: profile.holders }, tree, mine), [profile, tree, mine])
  return (
    <>
      <div class="waist">{titleOf(of)}</div>
      <p class="lead">Where threads waited for it</p>
      <Half id="waiters" title="Where threads waited for it" weighted={waiters} flip={false} whole={sums} />
      {of.text && <p class="lead">What it did meanwhile</p>}
      {of.text && <Half id="holder" title="What the holder did meanwhile" weighted={holder} flip={false} whole={sums} />}
    </>
  )
}
