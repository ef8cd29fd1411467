// The search of the site: MiniSearch over search.json, both loaded when the field is used for the first time.
const root = new URL('.', import.meta.url)
const form = document.querySelector('form.search')
const field = form.querySelector('input')
const list = form.querySelector('ul')
const status = form.querySelector('[role=status]')
let index

async function load() {
  const [{ default: MiniSearch }, sections] = await Promise.all([
    import(new URL('minisearch.js', root)),
    fetch(new URL('search.json', root)).then(answer => answer.json()),
  ])
  const words = new Set('a an and are be by can do does for from has have how i if in is it its my of on or the there this to was what when where which who why will with'.split(' '))
  const all = new MiniSearch({
    processTerm: term => words.has(term.toLowerCase()) ? null : term.toLowerCase(),
    idField: 'url', fields: ['heading', 'page', 'text'], storeFields: ['heading', 'page'],
    searchOptions: { boost: { heading: 4, page: 2 }, prefix: true, fuzzy: term => term.length > 5 ? 0.15 : false },
  })
  all.addAll(sections)
  return all
}

async function search() {
  const all = field.value.trim() === '' ? null : await (index ??= load())
  let found = all?.search(field.value, { combineWith: 'AND' }) ?? []
  if (found.length === 0) found = all?.search(field.value) ?? []
  found = found.slice(0, 12)
  list.replaceChildren(...found.map(f => {
    const link = document.createElement('a')
    link.href = new URL(f.id.replace(/^\//, ''), root)
    link.textContent = f.heading
    const page = document.createElement('small')
    page.textContent = f.heading === f.page ? '' : f.page
    const item = document.createElement('li')
    item.append(link, ' ', page)
    return item
  }))
  list.hidden = found.length === 0
  status.textContent = field.value.trim() === '' ? '' : found.length === 0 ? 'Nothing found' : `${found.length} found`
}

form.hidden = false
field.addEventListener('input', search)
field.addEventListener('keydown', event => { if (event.key === 'Escape') { field.value = ''; search() } })
form.addEventListener('submit', event => { event.preventDefault(); list.querySelector('a')?.click() })
