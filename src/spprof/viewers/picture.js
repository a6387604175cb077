// Zoom and search of the flame graph that formats/svg.py writes. It runs where a browser shows the picture alone; in documents
// the picture is still.
(() => {
  const svg = document.documentElement
  const width = svg.viewBox.baseVal.width
  const LETTER = 6.7
  const number = (element, name) => Number(element.getAttribute(name))
  const boxes = [...svg.querySelectorAll('g.box')].map((group) => {
    const rect = group.querySelector('rect')
    const [name, figures] = group.querySelector('title').textContent.split('\n')
    const share = figures.split(', ').pop()
    const [, title, file] = /^([^]*?)(?: \(([^()]*:\d+)\))?$/.exec(name)
    const parts = file?.split(/[/\\]/) ?? []
    const place = parts.slice(parts.at(-1)?.startsWith('__') ? -2 : -1).join('/')
    const texts = [place && `${title} (${place}) ${share}`, `${title} ${share}`, title].filter(Boolean)
    return { group, rect, name, texts, x: number(rect, 'x'), y: number(rect, 'y'), width: number(rect, 'width'), fill: rect.getAttribute('fill') }
  })

  function fit(box, left, wide) {
    let text = box.group.querySelector('text')
    const letters = Math.floor((wide - 6) / LETTER)
    if (letters < 3) return text?.remove()
    if (!text) {
      text = document.createElementNS(svg.namespaceURI, 'text')
      text.setAttribute('y', box.y + 12.5)
      box.group.append(text)
    }
    text.setAttribute('x', left + 3)
    const title = box.texts[box.texts.length - 1]
    text.textContent = box.texts.find((each) => each.length <= letters) ?? title.slice(0, letters - 1) + '…'
  }

  // Its callers are as wide as the picture, what it calls as wide as their part of it, and nothing else is there.
  function zoom(to) {
    const [from, until] = to ? [to.x, to.x + to.width] : [0, width]
    const scale = width / (until - from)
    for (const box of boxes) {
      const above = to && box.y < to.y && box.x <= from + 0.4 && box.x + box.width >= until - 0.4
      const inside = (!to || box.y >= to.y) && box.x >= from - 0.01 && box.x + box.width <= until + 0.4
      box.group.style.display = above || inside ? '' : 'none'
      if (!above && !inside) continue
      const [left, wide] = above ? [0, width - 0.3] : [(box.x - from) * scale, box.width * scale]
      box.rect.setAttribute('x', left)
      box.rect.setAttribute('width', wide)
      box.group.classList.toggle('above', Boolean(above))
      fit(box, left, wide)
    }
    whole.style.display = to ? '' : 'none'
  }

  function search(words) {
    const wanted = words.trim().toLowerCase()
    let share = 0
    const covered = [] // from left to right of what matches, callers first: each part of the picture counts once
    for (const box of boxes) {
      const match = wanted !== '' && box.name.toLowerCase().includes(wanted)
      box.rect.setAttribute('fill', match ? '#c061e8' : box.fill)
      box.group.classList.toggle('match', match)
      if (!match || covered.some(([from, until]) => box.x >= from - 0.01 && box.x + box.width <= until + 0.4)) continue
      covered.push([box.x, box.x + box.width])
      share += (box.width + 0.3) / width
    }
    found.textContent = wanted ? `${(100 * Math.min(1, share)).toFixed(1)} % found` : ''
  }

  function word(x, text, anchor) {
    const element = document.createElementNS(svg.namespaceURI, 'text')
    for (const [name, value] of Object.entries({ x, y: 18, 'text-anchor': anchor, class: 'head' })) element.setAttribute(name, value)
    element.textContent = text
    svg.append(element)
    return element
  }
  const found = word(width - 180, '', 'end')
  const whole = word(width - 290, 'whole picture (Esc)', 'end')
  whole.style.cssText = 'cursor: pointer; display: none; text-decoration: underline'
  whole.addEventListener('click', () => zoom(null))
  const frame = document.createElementNS(svg.namespaceURI, 'foreignObject')
  for (const [name, value] of Object.entries({ x: width - 172, y: 3, width: 170, height: 24 })) frame.setAttribute(name, value)
  const input = document.createElementNS('http://www.w3.org/1999/xhtml', 'input')
  input.setAttribute('type', 'search')
  input.setAttribute('placeholder', 'search (/)')
  input.setAttribute('aria-label', 'Search functions and files')
  input.style.cssText = 'width: 160px; font: 12px monospace; color-scheme: light dark'
  input.addEventListener('input', () => search(input.value))
  frame.append(input)
  svg.append(frame)
  for (const box of boxes) box.group.addEventListener('click', () => zoom(box))
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && event.target === input) {
      input.value = ''
      search('')
      input.blur()
    } else if (event.key === 'Escape') zoom(null)
    else if (event.key === '/' && event.target !== input) {
      input.focus()
      event.preventDefault()
    }
  })
})()
