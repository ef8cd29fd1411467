package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/cel"
)

// This file writes the page of the functions of CEL, from the languages of the versions and the examples below.

// example is a function or macro with an expression that is true. cost says in words how its cost grows; "" means that it is 1.
type example struct{ name, text, cost string }

const (
	byLength  = "a tenth of the length"
	twice     = "a fifth of the length"
	byItems   = "what reads all items: 1 for a number, a tenth of the length for a string"
	byResult  = "11 and the length of the result"
	bySquare  = "11 and twice the square of the length"
	byPattern = "a tenth of the length, times a quarter of the length of the pattern"
	byBody    = "its body for each item, and 3 to 12 more for each"
)

// functionGroups has an example of each function and macro.
var functionGroups = []struct {
	title    string
	examples []example
}{
	{"Loops and conditions", []example{
		{"all", `[1, 2].all(i, i > 0)`, byBody},
		{"exists", `[1, 2].exists(i, i > 1)`, byBody},
		{"exists_one", `[1, 2].exists_one(i, i > 1)`, byBody},
		{"existsOne", `{'a': 1, 'b': 2}.existsOne(k, v, v > 1)`, byBody},
		{"filter", `[1, 2].filter(i, i > 1) == [2]`, byBody},
		{"map", `[1, 2].map(i, i * 2) == [2, 4]`, byBody},
		{"transformList", `{'a': 1}.transformList(k, v, v + 1) == [2]`, byBody},
		{"transformMap", `{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}`, byBody},
		{"transformMapEntry", `{'a': 1}.transformMapEntry(k, v, {k + 'b': v}) == {'ab': 1}`, byBody + "; 30 for the map"},
		{"has", `has({'a': 1}.a)`, "0, besides its parts"},
		{"in", `2 in [1, 2]`, "the length of the list; 1 for a map"},
	}},
	{"Optional values", []example{
		{"optional.of", `optional.of(1).hasValue()`, ""},
		{"optional.none", `!optional.none().hasValue()`, ""},
		{"optional.ofNonZeroValue", `!optional.ofNonZeroValue('').hasValue()`, ""},
		{"optional.unwrap", `optional.unwrap([optional.of(1), optional.none()]) == [1]`, ""},
		{"unwrapOpt", `[optional.of(1), optional.none()].unwrapOpt() == [1]`, ""},
		{"hasValue", `{'a': 1}[?'a'].hasValue()`, ""},
		{"value", `{'a': 1}[?'a'].value() == 1`, ""},
		{"or", `{'a': 1}[?'b'].or({'a': 1}[?'a']).value() == 1`, "0, besides its parts"},
		{"orValue", `{'a': 1}[?'b'].orValue(0) == 0`, "0, besides its parts"},
		{"optMap", `{'a': 1}[?'a'].optMap(v, v + 1).value() == 2`, "its body"},
		{"optFlatMap", `{'a': [1]}[?'a'].optFlatMap(v, v[?0]).value() == 1`, "its body"},
	}},
	{"Strings", []example{
		{"charAt", `'keel'.charAt(0) == 'k'`, ""},
		{"contains", `'keelson'.contains('els')`, "a tenth of both lengths, multiplied"},
		{"endsWith", `'keelson'.endsWith('son')`, "a tenth of the length of the end"},
		{"startsWith", `'keelson'.startsWith('keel')`, "a tenth of the length of the beginning"},
		{"format", `'%s: %d'.format(['size', 3]) == 'size: 3'`, byLength},
		{"indexOf", `'keel'.indexOf('e') == 1 && [1, 2].indexOf(2) == 1`, byItems},
		{"lastIndexOf", `'keel'.lastIndexOf('e') == 2 && [1, 1].lastIndexOf(1) == 1`, byItems},
		{"join", `['a', 'b'].join('-') == 'a-b'`, "a fifth of the length of the result"},
		{"split", `'a-b'.split('-') == ['a', 'b']`, twice},
		{"replace", `'keel'.replace('e', 'o') == 'kool'`, twice},
		{"substring", `'keelson'.substring(0, 4) == 'keel'`, byLength},
		{"trim", `' a '.trim() == 'a'`, byLength},
		{"lowerAscii", `'Keel'.lowerAscii() == 'keel'`, byLength},
		{"upperAscii", `'keel'.upperAscii() == 'KEEL'`, byLength},
		{"strings.quote", `strings.quote('a"b') == '"a\\"b"'`, byLength},
		{"size", `'keel'.size() == 4 && size([1, 2]) == 2`, ""},
	}},
	{"Regular expressions", []example{
		{"matches", `'keel-1'.matches('^[a-z]+-[0-9]$')`, byPattern},
		{"find", `'keel-12'.find('[0-9]+') == '12'`, byPattern},
		{"findAll", `'1, 2'.findAll('[0-9]') == ['1', '2']`, byPattern},
	}},
	{"Lists", []example{
		{"isSorted", `[1, 2].isSorted()`, byItems},
		{"sum", `[1, 2].sum() == 3`, byItems},
		{"min", `[1, 2].min() == 1`, byItems},
		{"max", `[1, 2].max() == 2`, byItems},
		{"includes", `[1, 2].includes(2)`, byItems},
		{"distinct", `[1, 1].distinct() == [1]`, bySquare},
		{"sort", `[2, 1].sort() == [1, 2]`, bySquare},
		{"sortBy", `['bb', 'a'].sortBy(s, size(s)) == ['a', 'bb']`, bySquare + ", and the body for each item"},
		{"flatten", `[[1], [2]].flatten() == [1, 2]`, "11 and the length, times the depth"},
		{"reverse", `[1, 2].reverse() == [2, 1]`, byResult},
		{"slice", `[1, 2, 3].slice(0, 2) == [1, 2]`, byResult},
		{"lists.range", `lists.range(3) == [0, 1, 2]`, byResult},
		{"first", `[1, 2].first().value() == 1`, ""},
		{"last", `[1, 2].last().value() == 2`, ""},
	}},
	{"Sets", []example{
		{"sets.contains", `sets.contains([1, 2], [2])`, "1 and both lengths, multiplied"},
		{"sets.equivalent", `sets.equivalent([1, 2], [2, 1])`, "1 and twice both lengths, multiplied"},
		{"sets.intersects", `sets.intersects([1, 2], [2, 3])`, "1 and both lengths, multiplied"},
	}},
	{"Conversions and types", []example{
		{"bool", `bool('true')`, ""},
		{"bytes", `bytes('a') == b'a'`, byLength},
		{"double", `double('1.5') == 1.5`, ""},
		{"dyn", `dyn(1) == 1.0`, ""},
		{"int", `int('3') == 3`, ""},
		{"string", `string(3) == '3'`, "1; " + byLength + " for bytes"},
		{"type", `type(1) == int`, ""},
		{"uint", `uint(3) == 3u`, ""},
	}},
	{"Time", []example{
		{"duration", `duration('90m') == duration('1h30m')`, ""},
		{"timestamp", `timestamp('2026-01-02T03:04:05Z') > timestamp('2025-01-01T00:00:00Z')`, ""},
		{"getDate", `timestamp('2026-01-02T03:04:05Z').getDate() == 2`, ""},
		{"getDayOfMonth", `timestamp('2026-01-02T03:04:05Z').getDayOfMonth() == 1`, ""},
		{"getDayOfWeek", `timestamp('2026-01-02T03:04:05Z').getDayOfWeek() == 5`, ""},
		{"getDayOfYear", `timestamp('2026-01-02T03:04:05Z').getDayOfYear() == 1`, ""},
		{"getFullYear", `timestamp('2026-01-02T03:04:05Z').getFullYear() == 2026`, ""},
		{"getHours", `duration('90m').getHours() == 1`, ""},
		{"getMilliseconds", `timestamp('2026-01-02T03:04:05.678Z').getMilliseconds() == 678`, ""},
		{"getMinutes", `duration('90m').getMinutes() == 90`, ""},
		{"getMonth", `timestamp('2026-01-02T03:04:05Z').getMonth() == 0`, ""},
		{"getSeconds", `duration('90m').getSeconds() == 5400`, ""},
	}},
	{"Names and formats", []example{
		{"format.named", `format.named('dns1123Label').hasValue()`, ""},
		{"validate", `!format.dns1123Label().validate('keel').hasValue()`, "a tenth of the length, times a quarter of the length of the format's pattern"},
		{"format.dns1123Label", `format.dns1123Label().validate('Keel').hasValue()`, ""},
		{"format.dns1123LabelPrefix", `!format.dns1123LabelPrefix().validate('keel-').hasValue()`, ""},
		{"format.dns1123Subdomain", `!format.dns1123Subdomain().validate('keel.example').hasValue()`, ""},
		{"format.dns1123SubdomainPrefix", `!format.dns1123SubdomainPrefix().validate('keel.example-').hasValue()`, ""},
		{"format.dns1035Label", `format.dns1035Label().validate('1keel').hasValue()`, ""},
		{"format.dns1035LabelPrefix", `!format.dns1035LabelPrefix().validate('keel-').hasValue()`, ""},
		{"format.qualifiedName", `!format.qualifiedName().validate('example.com/name').hasValue()`, ""},
		{"format.labelValue", `!format.labelValue().validate('v1').hasValue()`, ""},
		{"format.uri", `!format.uri().validate('https://example.com').hasValue()`, ""},
		{"format.uuid", `!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()`, ""},
		{"format.byte", `!format.byte().validate('aGVsbG8=').hasValue()`, ""},
		{"format.date", `!format.date().validate('2026-01-02').hasValue()`, ""},
		{"format.datetime", `!format.datetime().validate('2026-01-02T03:04:05Z').hasValue()`, ""},
	}},
	{"Quantities", []example{
		{"quantity", `quantity('1Gi') == quantity('1024Mi')`, byLength},
		{"isQuantity", `isQuantity('1Gi') && !isQuantity('1 GB')`, byLength},
		{"add", `quantity('1').add(quantity('500m')) == quantity('1500m')`, ""},
		{"sub", `quantity('2').sub(1) == quantity('1')`, ""},
		{"compareTo", `quantity('1').compareTo(quantity('2')) == -1`, ""},
		{"isGreaterThan", `quantity('2').isGreaterThan(quantity('1'))`, ""},
		{"isLessThan", `quantity('1').isLessThan(quantity('2'))`, ""},
		{"sign", `sign(quantity('-1')) == -1`, ""},
		{"isInteger", `!quantity('500m').isInteger()`, ""},
		{"asInteger", `quantity('2k').asInteger() == 2000`, ""},
		{"asApproximateFloat", `quantity('500m').asApproximateFloat() == 0.5`, ""},
	}},
	{"Semantic versions", []example{
		{"semver", `semver('1.2.3').isLessThan(semver('1.10.0'))`, byLength},
		{"isSemver", `isSemver('1.2.3') && !isSemver('1.2')`, byLength},
		{"major", `semver('1.2.3').major() == 1`, ""},
		{"minor", `semver('1.2.3').minor() == 2`, ""},
		{"patch", `semver('1.2.3').patch() == 3`, ""},
	}},
	{"Addresses and URLs", []example{
		{"ip", `ip('192.168.0.1').family() == 4`, byLength},
		{"isIP", `isIP('::1') && !isIP('1.2.3')`, byLength},
		{"ip.isCanonical", `!ip.isCanonical('2001:DB8::1')`, twice},
		{"family", `ip('::1').family() == 6`, ""},
		{"isGlobalUnicast", `ip('192.168.0.1').isGlobalUnicast()`, ""},
		{"isLinkLocalMulticast", `ip('224.0.0.1').isLinkLocalMulticast()`, ""},
		{"isLinkLocalUnicast", `ip('169.254.0.1').isLinkLocalUnicast()`, ""},
		{"isLoopback", `ip('127.0.0.1').isLoopback()`, ""},
		{"isUnspecified", `ip('0.0.0.0').isUnspecified()`, ""},
		{"cidr", `cidr('10.0.0.0/8').containsIP('10.1.2.3')`, byLength},
		{"isCIDR", `isCIDR('10.0.0.0/8')`, byLength},
		{"containsIP", `cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))`, "a fifth of the bytes of the address, and " + byLength + " of a string"},
		{"containsCIDR", `cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')`, "2 and more, by the bytes of the address and the length of a string"},
		{"masked", `cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')`, ""},
		{"prefixLength", `cidr('10.0.0.0/8').prefixLength() == 8`, ""},
		{"url", `url('https://example.com:8443/a?b=c').getHost() == 'example.com:8443'`, byLength},
		{"isURL", `isURL('https://example.com')`, ""},
		{"getScheme", `url('https://example.com').getScheme() == 'https'`, ""},
		{"getHost", `url('https://example.com:8443').getHost() == 'example.com:8443'`, ""},
		{"getHostname", `url('https://example.com:8443').getHostname() == 'example.com'`, ""},
		{"getPort", `url('https://example.com:8443').getPort() == '8443'`, ""},
		{"getEscapedPath", `url('https://example.com/a b').getEscapedPath() == '/a%20b'`, ""},
		{"getQuery", `url('https://example.com/?b=c').getQuery() == {'b': ['c']}`, ""},
	}},
	{"Permissions, in policies and match conditions of webhooks", []example{
		{"path", `authorizer.path('/healthz').check('get').allowed()`, ""},
		{"group", `authorizer.group('apps').resource('deployments').check('list').allowed()`, ""},
		{"resource", `authorizer.group('').resource('pods').check('list').allowed()`, ""},
		{"subresource", `authorizer.group('').resource('pods').subresource('log').check('get').allowed()`, ""},
		{"namespace", `authorizer.group('').resource('pods').namespace('shop').check('get').allowed()`, ""},
		{"name", `authorizer.group('').resource('pods').name('a').check('get').allowed()`, ""},
		{"fieldSelector", `authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a').check('list').allowed()`, ""},
		{"labelSelector", `authorizer.group('').resource('pods').labelSelector('app=shop').check('list').allowed()`, ""},
		{"serviceAccount", `authorizer.serviceAccount('shop', 'builder').path('/healthz').check('get').allowed()`, ""},
		{"check", `authorizer.path('/healthz').check('get').allowed()`, "350,000"},
		{"allowed", `authorizer.path('/healthz').check('get').allowed()`, ""},
		{"reason", `authorizer.path('/healthz').check('get').reason() == 'example'`, ""},
		{"errored", `!authorizer.path('/healthz').check('get').errored()`, ""},
		{"error", `authorizer.path('/healthz').check('get').error() == ''`, ""},
	}},
}

// oldest is the minor version of the oldest language that the page tells apart: the first one with rules that is not an alpha.
const oldest = 25

// languages returns the languages of the versions 1.25 to 1.37, by their minor versions.
func languages() (map[int]*cel.Language, error) {
	out := map[int]*cel.Language{}
	var newest int
	if _, err := fmt.Sscanf(cel.NewestKubernetes, "1.%d", &newest); err != nil {
		return nil, err
	}
	for minor := oldest; minor <= newest; minor++ {
		l, err := cel.NewLanguage(cel.LanguageOptions{Kubernetes: fmt.Sprintf("1.%d", minor),
			Variables: []cel.Variable{{Name: "authorizer", Type: "kubernetes.authorization.Authorizer"}}})
		if err != nil && minor < 27 { // there is no authorizer yet
			l, err = cel.NewLanguage(cel.LanguageOptions{Kubernetes: fmt.Sprintf("1.%d", minor)})
		}
		if err != nil {
			return nil, err
		}
		out[minor] = l
	}
	return out, nil
}

// everything is an authorizer that allows all requests.
type everything struct{}

func (everything) Authorize(cel.AccessCheck) (allowed bool, reason string, err error) {
	return true, "example", nil
}

// functionsPage returns the page of CEL's functions: signatures, versions, costs and examples.
func functionsPage() (string, error) {
	all, err := languages()
	if err != nil {
		return "", err
	}
	newest := oldest + len(all) - 1
	var b strings.Builder
	fmt.Fprintf(&b, "# CEL functions\n\nThe functions and macros of rules, policies and match conditions in Kubernetes 1.%d. Each example is true, and is evaluated when this page\n"+
		"is made: its cost is what a server counts. `keelson eval 'EXPRESSION'` tries one. A version stands where a function is not in all since 1.%d;\n"+
		"a server accepts a function in new rules one version after it knows it. [CEL and its costs](/cel/) explains costs and limits, and\n"+
		"[Which clusters take it](/releases/) finds the oldest version for a whole CRD.\n", newest, oldest)
	for _, g := range functionGroups {
		fmt.Fprintf(&b, "\n## %s\n\n| Function | Since | Cost | Example | Its cost |\n| --- | --- | --- | --- | --- |\n", g.title)
		for _, e := range g.examples {
			row, err := functionRow(all, newest, e)
			if err != nil {
				return "", fmt.Errorf("%s: %w", e.name, err)
			}
			b.WriteString(row)
		}
	}
	return b.String(), nil
}

// functionRow returns the row of a function, after it has evaluated its example.
func functionRow(all map[int]*cel.Language, newest int, e example) (string, error) {
	x, err := all[newest].CompileExpression(e.text)
	if err != nil {
		return "", err
	}
	v, cost, err := x.Eval(context.Background(), cel.Vars{"authorizer": cel.AuthorizerValue(everything{})}, 10_000_000)
	if err != nil || !v.Bool() {
		return "", fmt.Errorf("%s is %v (%v), want true", e.text, v, err)
	}
	since := ""
	for minor := newest; minor > oldest; minor-- {
		before := all[minor-1]
		if !slices.Contains(before.Functions(), e.name) && !slices.Contains(before.Macros(), e.name) {
			since = fmt.Sprintf("1.%d", minor)
			break
		}
	}
	growth := e.cost
	if growth == "" {
		growth = "1"
	}
	code := strings.NewReplacer("|", "\\|")
	return fmt.Sprintf("| %s | %s | %s | `%s` | %d |\n", signatures(all[newest], e.name), since, growth, code.Replace(e.text), cost), nil
}

// signatures returns the signatures of a function, one below the other; of a macro its name.
func signatures(l *cel.Language, name string) string {
	var lines []string
	for _, f := range l.Overloads(name) {
		params := f.Params
		call := name
		if f.Member {
			call, params = params[0]+"."+name, params[1:]
		}
		lines = append(lines, "`"+plainSignature(fmt.Sprintf("%s(%s) %s", call, strings.Join(params, ", "), f.Result))+"`")
	}
	switch {
	case len(lines) == 0:
		return "`" + name + "`, a macro"
	case len(lines) > 3:
		for i := range lines {
			lines[i] = listOf.ReplaceAllString(ofItem.ReplaceAllString(lines[i], "list(T)$2 T`"), "list(T)")
		}
		lines = slices.Compact(lines)
	}
	return strings.Join(lines, "<br>")
}

// The signatures of functions that exist for lists of several types: listOf finds the list, ofItem those whose result is an item.
var (
	listOf = regexp.MustCompile(`list\((bool|bytes|double|duration|int|string|timestamp|uint)\)`)
	ofItem = regexp.MustCompile("list\\((bool|bytes|double|duration|int|string|timestamp|uint)\\)(\\.(?:min|max|sum)\\(\\)) [a-z]+`")
)

// plainSignature shortens the names of types.
func plainSignature(s string) string {
	return strings.NewReplacer("google.protobuf.", "", "kubernetes.authorization.", "", "kubernetes.", "", "net.", "",
		"optional_type(", "optional(", "<", "", ">", "", "Duration", "duration", "Timestamp", "timestamp").Replace(s)
}
