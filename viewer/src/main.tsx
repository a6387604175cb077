import { effect } from '@preact/signals'
import { render } from 'preact'
import { follow } from './address'
import { decode, unpack } from './data/decode'
import * as state from './state'
import { App } from './ui/App'
import './style.css'

async function main(): Promise<void> {
  const root = document.getElementById('app')!
  const element = document.getElementById('profile')!
  try {
    state.types.value = decode(await unpack(element.textContent ?? ''))
  } catch (error) {
    root.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}`
    root.className = 'broken'
    return
  }
  element.remove() // its text is the largest thing in the page, and no longer needed
  const system = window.matchMedia('(prefers-color-scheme: dark)')
  state.systemDark.value = system.matches
  system.addEventListener('change', () => (state.systemDark.value = system.matches))
  effect(() => {
    document.documentElement.dataset.theme = state.dark.value ? 'dark' : 'light' // before any view reads its colours
  })
  follow(effect)
  root.textContent = ''
  render(<App />, root)
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('shown'))) // for bench/viewer.py
}

void main()
