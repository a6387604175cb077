// Stacks with some functions left out of them or folded. No time is lost: that of a function that is not there is its caller's.
import type { Profile } from './profile'

export enum Role {
  Kept = 0,
  Merged = 1, // left out; what it calls is called by its caller
  Folded = 2, // all that it calls is a part of it
}

export type Trie = Pick<Profile, 'parent' | 'stacks' | 'leaves' | 'holders'>

// `roles`: of each function. Nodes keep their numbers; of those that are not there any more nothing is the parent.
export function reshape(profile: Profile, roles: Uint8Array): Trie {
  const { parent, frame, frames } = profile
  const n = parent.length
  const [above, of, folded] = [new Uint32Array(n), new Uint32Array(n), new Uint8Array(n)]
  for (let node = 1; node < n; node++) {
    const caller = parent[node]!
    const role = roles[frames.fn[frame[node]!]!]
    above[node] = of[caller]!
    folded[node] = folded[caller] || role === Role.Folded ? 1 : 0
    of[node] = folded[caller] || role === Role.Merged ? of[caller]! : node
  }
  const moved = (leaves: Uint32Array) => leaves.map((leaf) => of[leaf]!)
  return { parent: above, stacks: moved(profile.stacks), leaves: moved(profile.leaves), holders: moved(profile.holders) }
}
