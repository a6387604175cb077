// node open.mjs SPEEDSCOPE_DIR LOADER_JS: opens a profile in the real speedscope, offline, and prints as JSON what a person sees:
// the profiles of the thread list, and the rows of the Sandwich view of each.
import { chromium } from 'playwright-core'
import { pathToFileURL } from 'node:url'

const [dir, loader] = process.argv.slice(2)
const browser = await chromium.launch({
  timeout: 120000,
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--allow-file-access-from-files', '--disable-background-networking', '--no-first-run',
    '--disable-component-update', '--disable-sync', '--disable-quic', '--use-gl=angle', '--use-angle=swiftshader'],
})
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } })
const errors = []
page.on('pageerror', (error) => errors.push(String(error)))
await page.goto(pathToFileURL(`${dir}/index.html`).href + `#localProfilePath=${encodeURI(loader)}`, { timeout: 60000 })
const tab = page.getByText('Sandwich', { exact: false }).first()
await tab.waitFor({ timeout: 60000 })
const result = { profiles: [], rows: {}, errors }

// The thread list is a table that opens on a click on the title, "NAME (1/2)"; its rows are there all along.
const title = page.locator('text=/\\(\\d+\\/\\d+\\)$/').first()
result.total = (await title.count()) ? Number((await title.textContent()).match(/\/(\d+)\)$/)[1]) : 1
result.list = await page.locator('tr[title]').evaluateAll((rows) => rows.map((row) => row.title))
for (let i = 0; i < result.total; i++) {
  await tab.click()
  await page.locator('tr:not([title]):has(td):visible').first().waitFor({ timeout: 60000 })
  const name = result.list[i] ?? ''
  const rows = await page.locator('tr:not([title]):has(td):visible').allInnerTexts()
  result.profiles.push(name)
  result.rows[name] = rows.map((row) => row.split(/[\t\n]+/).map((cell) => cell.trim()).filter(Boolean))
  if (i + 1 < result.total) {
    await page.keyboard.press('n')
    await page.locator(`text=/\\(${i + 2}\\/${result.total}\\)$/`).first().waitFor({ timeout: 60000 })
  }
}
if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT })
console.log(JSON.stringify(result))
await browser.close()
