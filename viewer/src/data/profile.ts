// A profile as the views read it. Everything that there is one of for each sample, frame or node is a typed array.

export interface Fn {
  name: string
  qualname: string
  file: string
  line: number // where it begins; 0 for native functions
  kind: Kind
  reason?: string // of a mark that says what was waited for (waits.ts)
}

export enum Kind {
  Python = 0,
  Native = 1,
  Mark = 2, // [truncated], [no Python frames]
}

export interface Frames {
  fn: Uint32Array
  line: Uint32Array
  endLine: Uint32Array
  col: Uint32Array // a UTF-8 byte offset + 1; 0: unknown
  endCol: Uint32Array
  source: Uint32Array // of native frames: string id + 1 of the file where the function was written
  sourceLine: Uint32Array
}

// Samples of a thread in order of time; `null` columns are all 0. Times are in units, weights in those of weight.
export interface Thread {
  id: number
  tid: number
  name: string
  length: number
  time: Uint32Array // when the sample was taken, which is the end of what it stands for
  weight: Uint32Array
  stack: Uint32Array
  extraTicks: Uint32Array | null
  flags: Uint32Array | null
  label: Uint32Array | null
}

export interface Marker {
  name: string
  thread: number
  time: number
  duration: number
  data: Record<string, unknown>
}

// `stack`: the node of what the holder did meanwhile; 0: not known.
export type Wait = [reason: string, what: string, holder: string, stack: number]

// Sample.flags
export const OFF_CPU = 4 // the thread waited
const KERNEL = 2 // kernel time, met by the kernel's tick
const COARSE = 32 // taken at no random instant
export const isUnknown = (flags: number): boolean => (flags & (KERNEL | COARSE)) !== 0 && !(flags & OFF_CPU)

// The JSON of the page (formats/html.py). What comes from a program under test is never trusted to have a shape.
export interface About {
  format: number
  spprof: string
  header: Record<string, unknown>
  end: { reason?: string; stop_ns?: number } | null
  warning: string | null
  stats: Record<string, unknown>
  clock: string
  losses: [string, string, number][]
  start_ns: number
  unit: string // what weights count: nanoseconds, faults, or what another profiler's file counts
  measured: string // the same in words: CPU time, threads' time, faults
  unit_ns: number
  weight_unit?: number // where weights are no time
  others?: Partial<About>[] // what differs, of each type of samples but the first
  threads: [number, number, string][]
  label_sets: Record<string, string>[]
  markers: [string, number, number, number, Record<string, unknown>][]
  strings: string[]
  functions: [number, number, number, number, number][]
  waits: Wait[]
  calls?: ([number, number] | null)[] // exact calls and resumes of each function, where they were counted
  calls_missing?: string // what was not, in words
  sources: Record<string, string>
  changed: string[]
  without: Record<string, string> // file -> why its text is not here
}

// The samples of one type. Profiles of several types in one page share all but the samples.
export interface Profile {
  about: About
  type: string // its name: 'time', 'page-faults'
  counts: string // what weights are numbers of ('samples', 'faults'); '' if they are nanoseconds
  timed: boolean // whether samples have times, which not all files of other profilers tell
  unit: number // of times, in nanoseconds
  weightUnit: number // of weights, in nanoseconds or what is counted
  duration: number // units, from the start to the end, or to the last sample
  fns: Fn[]
  strings: string[]
  frames: Frames
  parent: Uint32Array // of each node; node 0 is the root, and a parent's id is less than its child's
  frame: Uint32Array
  stacks: Uint32Array // the leaf of each stack
  waits: Wait[] // what threads and tasks waited for
  waited: Uint32Array // of each stack the place of that, + 1; 0: nothing
  leaves: Uint32Array // of each stack, with what was waited for below it (waits.ts)
  holders: Uint32Array // of each stack the leaf of what the holder did meanwhile; 0: not known, or none
  threads: Thread[]
  markers: Marker[]
  labelSets: Record<string, string>[]
}

export const RUNNING = 'running'

// The reasons there are, and the place among them of each wait of `waited`: 0 is RUNNING.
export function reasonsOf({ waits }: Pick<Profile, 'waits'>): { names: string[]; of: Uint32Array } {
  const names = [...new Set([RUNNING, ...waits.map(([reason]) => reason)])]
  return { names, of: Uint32Array.from([0, ...waits.map(([reason]) => names.indexOf(reason))]) }
}
