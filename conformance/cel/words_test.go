package cel_test

// This file holds the words of random expressions and data: texts that mean
// something to some function.

var wordPools = map[string][]string{
	"plain":     {"", "a", "b", "ab", "A-b_c", "hello", "wörld", "✓", "a b", "x,y,z", "aaa", "true", "A\"q'", "\t", " pad ", "abcdefghijklmnopqrstuvwxyz0123456789"},
	"number":    {"0", "1", "-1", "42", "007", "1.5", "-0.25", "1e3", "9223372036854775807", "18446744073709551615", "NaN", "Infinity", "0x10", "1_000", "", "٣"},
	"bool":      {"true", "false", "T", "f", "TRUE", "yes", "1", "0", ""},
	"quantity":  {"1", "1k", "1Ki", "1.5Gi", "100m", "-2M", "1e3", "0", "50020", "10Mo", "", "1.5e-3", "9223372036854775808", "1n", "12E", "+3"},
	"ip":        {"10.0.0.1", "192.168.1.255", "0.0.0.0", "127.0.0.1", "::1", "2001:db8::1", "2001:DB8::1", "fe80::1", "fe80::1%eth0", "::ffff:1.2.3.4", "ff02::1", "1.2.3", "224.0.0.1", "::", "x", ""},
	"cidr":      {"10.0.0.0/8", "10.1.2.3/16", "192.168.0.0/24", "0.0.0.0/0", "::/0", "2001:db8::/32", "10.0.0.1/32", "::1/128", "10.0.0.0/33", "10.0.0.0", "x/8", "", "::ffff:1.2.3.0/120"},
	"url":       {"https://a.example.com:80/p%20q/r?k=v&k=w&z#f", "http://[::1]:8080/", "/rel/path", "file:///etc/x", "https://u:p@h/", "x", "", "://", "http://a b", "https://é.example/ü?ü=é", "mailto:a@b"},
	"semver":    {"1.2.3", "1.2.4-alpha.1", "1.2.3+build", "v1.2", "1", "01.2.3", "0.0.0", "1.2.3-01", "v1.2-rc", "", "1.2.3.4", "99999999999999999999.0.0", "1.2.3-alpha"},
	"duration":  {"1s", "1h30m", "-5m", "0", "1.5h", "100ms", "1d", "2562047h", "9223372036s", "", "1 week", "2 days", "-1ns", "x", "3000000h"},
	"timestamp": {"2024-05-06T07:08:09Z", "2024-02-29T23:59:59.123456789Z", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-05-06T07:08:09+05:30", "2024-05-06", "", "x", "2024-13-01T00:00:00Z", "10000-01-01T00:00:00Z", "1900-01-01T00:00:00-08:00"},
	"zone":      {"UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "+02:00", "-05:30", "02:00", "+25:00", "+02:61", "Nowhere/Else", "", "+2", "-00:00", "a:b", "Local"},
	"regexp":    {"", "a", "^h", "o$", "[a-c]+", "(a|b)*", ".", "\\d+", "[0-9]{2,3}", "(?i)HELLO", "(", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "(a)(b)?", "\\pL", "x{1001}", "a**", "^$", "(?m)^b$", "\\bw", "[^a]"},
	"format":    {"%s", "%d", "%.2f", "%e", "%b", "%x", "%X", "%o", "%%", "a%sb%s", "%.3e", "%s%d%f", "%q", "%", "%.f", "%.101f", "", "no clause", "%5d", "%.2d", "é%s✓"},
	"name":      {"dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue", "uri", "uuid", "byte", "date", "datetime", "dns1123LabelPrefix", "nope", ""},
	"value":     {"abc", "Abc", "a.b.c", "-x", "example.com/name", "a_b", "550e8400-e29b-41d4-a716-446655440000", "aGVsbG8=", "2024-05-06", "2024-05-06T07:08:09Z", "https://x.org/", "", "1abc", "a..b", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
	"selector":  {"a=b", "spec.nodeName=x,metadata.name!=y", "a in (b,c)", "=bad=", "", "!a"},
	"path":      {"/healthz", "", " ", "/a/b", "pods", "default"},
	"base64":    {"aGVsbG8=", "aGVsbG8", "", "!!", "w6k=", "AAEC/w=="},
	"key":       {"k", "b", "zz", "a b", "1", ""},
}

// pools are the words that an argument of a function often is: by function, or
// by function and number of the argument.
var pools = map[string]string{
	"quantity": "quantity", "isQuantity": "quantity", "ip": "ip", "isIP": "ip", "ip.isCanonical": "ip",
	"containsIP": "ip", "cidr": "cidr", "isCIDR": "cidr", "containsCIDR": "cidr", "url": "url", "isURL": "url",
	"semver": "semver", "isSemver": "semver", "duration": "duration", "timestamp": "timestamp",
	"matches/1": "regexp", "find/1": "regexp", "findAll/1": "regexp", "format/0": "format", "format.named": "name", "validate": "value",
	"int": "number", "uint": "number", "double": "number", "bool": "bool",
	"fieldSelector": "selector", "labelSelector": "selector", "path": "path", "group": "path", "resource": "path", "check": "path",
	"serviceAccount": "value", "base64.decode": "base64",
	"getFullYear/1": "zone", "getMonth/1": "zone", "getDayOfYear/1": "zone", "getDayOfMonth/1": "zone", "getDate/1": "zone",
	"getDayOfWeek/1": "zone", "getHours/1": "zone", "getMinutes/1": "zone", "getSeconds/1": "zone", "getMilliseconds/1": "zone",
}

// allWords are the words of all kinds, for data.
var allWords = func() []string {
	var out []string
	for _, list := range wordPools {
		out = append(out, list...)
	}
	return sortedUnique(out)
}()
