package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// This file holds what expressions in the configuration files of authorization and authentication can cost: each evaluation ends
// at its limit, in upstream's words and in bounded memory, also where there are many, and nobody gets in.

// hostileTexts are expressions over a text, @, and the text, of so many bytes at most. All of them run out of cost.
func hostileTexts(n int) map[string]struct{ expr, text string } {
	long := strings.Repeat("a", n)
	return map[string]struct{ expr, text string }{
		"loops":     {"lists.range(200).all(x, lists.range(200).all(y, lists.range(200).all(z, x + y + z >= 0)))", "s"},
		"exponent":  {"quantity(@).isInteger()", "1e-2147483648"},
		"digits":    {"isQuantity(@)", strings.Repeat("9", n)},
		"machine":   {"!@.matches('(.?){1000}(.?){1000}(.?){1000}(.?){1000}x$')", strings.Repeat("é", min(n/2, 100_000))},
		"dynamic":   {"'aaa'.find('(' + @ + ')*') == ''", strings.Repeat("a{1000}", 500)},
		"matches":   {"lists.range(100).all(i, @.findAll('').size() > i)", long},
		"formatted": {"lists.range(1000).all(i, '%s'.format([lists.range(9).map(i, @)]) != '')", long},
		"doubling":  {"lists.range(1000).map(i, @).join().split('').size() > 0", long},
		"reading":   {"lists.range(10000).all(i, @.charAt(i) != 'b')", long},
	}
}

// manyReading are n expressions, each of which reads the text @ often for little.
func manyReading(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("[1,2,3,4,5,6,7,8].all(i, [1,2,3,4,5,6,7].all(j, @.charAt(i) != 'b')) || %d < 0", i))
	}
	return list
}

// ends holds that memory has not grown much, and says what it took.
func (s *server) ends(t *testing.T, began time.Time, before int64) {
	t.Helper()
	if grown := s.peakMemory(t) - before; grown > mostMemory {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
	t.Logf("%v, %d MiB", time.Since(began).Round(time.Millisecond), s.peakMemory(t)>>20)
}

// TestHostileConditionsOfAuthorizers asks, in requests and reviews, what webhooks decide whose match conditions do harm.
func TestHostileConditionsOfAuthorizers(t *testing.T) {
	t.Parallel()
	h := newReviewer(t)
	h.on("/hook", rules(`{"allowed":true}`))
	file := h.kubeconfig("/hook", "")
	g := startGuarded(t, authzConfig("v1", plainEntry("RBAC")), []string{"ann"})
	before := g.peakMemory(t)
	conditions := map[string][]string{"many": manyReading(64)}
	texts := map[string]string{"many": strings.Repeat("a", 600_000)}
	for name, row := range hostileTexts(600_000) {
		conditions[name], texts[name] = []string{row.expr}, row.text
	}
	for name, list := range conditions {
		t.Run(name, func(t *testing.T) {
			for i := range list {
				list[i] = strings.ReplaceAll(list[i], "@", "request.nonResourceAttributes.path")
			}
			g.reload(entry("hook", file, "Deny", uncached, list...), plainEntry("RBAC"))
			asked := len(h.questions("/hook"))
			path, err := json.Marshal(texts[name])
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got := g.review(`{"user":"ann","nonResourceAttributes":{"verb":"get","path":` + string(path) + `}}`)
			if !got.Denied || got.Allowed || !strings.Contains(got.EvaluationError, "resulted in error: "+costLimited) {
				t.Errorf("review: got %.300v", got)
			}
			if name == "many" {
				if n := strings.Count(got.EvaluationError, costLimited); n != 57 {
					t.Errorf("%d conditions of 64 ran out of cost, want all but seven", n)
				}
			}
			if name != "exponent" && name != "digits" { // paths begin with a slash
				path := "/" + strings.NewReplacer("{", "%7B", "}", "%7D", "é", "%C3%A9").Replace(texts[name])
				if request := g.as("ann", "GET", path, ""); request.code != 500 || !strings.Contains(request.body, costLimited) {
					t.Errorf("request: got %d %s", request.code, tail(request.body, 300))
				}
			}
			if n := len(h.questions("/hook")) - asked; n != 0 {
				t.Errorf("the webhook was asked %d times", n)
			}
			g.ends(t, began, before)
		})
	}
}

// TestHostileExpressionsOfIssuers shows tokens, which have 64 KiB at most, to a server whose expressions about claims and users do harm.
func TestHostileExpressionsOfIssuers(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var rules, userRules, extra []string
	for name, row := range hostileTexts(40_000) {
		guarded := func(of, where, text string) string {
			return fmt.Sprintf("%s != '%s-%s' || (%s)", of, name, where, strings.ReplaceAll(row.expr, "@", text))
		}
		rules = append(rules, fmt.Sprintf("  - {expression: %s, message: refused}\n", quoted(guarded("claims.row", "rule", "string(claims.s)"))))
		userRules = append(userRules, fmt.Sprintf("  - {expression: %s, message: refused}\n", quoted(guarded("user.uid", "user", "user.username"))))
		extra = append(extra, fmt.Sprintf("    - {key: example.com/%s, valueExpression: %s}\n", name, quoted(guarded("claims.row", "extra", "string(claims.s)")+" ? 'a' : 'b'")))
	}
	for n, expr := range manyReading(640) {
		expr = strings.ReplaceAll(expr, "@", "string(claims.s)")
		rules = append(rules, fmt.Sprintf("  - {expression: %s, message: refused}\n", quoted(fmt.Sprintf("claims.row != 'many-rule' || %d < 0 || (%s)", n, expr))))
	}
	config := authenticationHead + i.entry("  claimValidationRules:\n"+strings.Join(rules, "")+
		"  claimMappings:\n    username: {expression: claims.s}\n    uid: {expression: claims.row}\n    extra:\n"+strings.Join(extra, "")+"  userValidationRules:\n"+strings.Join(userRules, ""))
	s := startServer(t, "--authentication-config", putFile(t, "authn.yaml", config), "-v", "4")
	v := newVisitor(t, s, nil)
	token := func(row, text string) []string { return bearer(i.sign(map[string]any{"row": row, "s": text})) }
	eventually(t, "the issuer's keys", func() bool { return strings.HasPrefix(v.who(t, token("good", "ann")...), "ann good ") })
	before := s.peakMemory(t)
	texts := map[string]string{"many": strings.Repeat("a", 40_000)}
	for name, row := range hostileTexts(40_000) {
		texts[name] = row.text
	}
	for name, text := range texts {
		for _, where := range []string{"rule", "user", "extra"} {
			if (name == "many" || name == "matches") && where != "rule" { // they take longest
				continue
			}
			t.Run(name+"-"+where, func(t *testing.T) {
				said, began := len(s.log.String()), time.Now()
				if got := v.who(t, token(name+"-"+where, text)...); got != "401" {
					t.Errorf("got %.100s, want 401", got)
				}
				s.ends(t, began, before)
				eventually(t, "the reason in the server's log", func() bool {
					return strings.Contains(s.log.String()[said:], "resulted in error: "+costLimited)
				})
			})
		}
	}
}

// TestHostileMappingsOfIssuers shows tokens to a server whose mappings of names, uids and groups do harm: they run out of cost, or
// make a user that is too large.
// Ledger: claim-mappings-size.
func TestHostileMappingsOfIssuers(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	mappings := map[string]string{"username": "", "uid": "", "groups": ""}
	texts := hostileTexts(40_000)
	for of := range mappings {
		var choice strings.Builder
		for name, row := range texts {
			fmt.Fprintf(&choice, "claims.row == '%s-%s' ? ((%s) ? 'a' : 'b') : ", of, name, strings.ReplaceAll(row.expr, "@", "string(claims.s)"))
		}
		choice.WriteString("claims.row == '" + of + "-long' ? [claims.s].map(s, lists.range(90).map(i, s).join())[0] : claims.row == '" + of + "-number' ? claims.n : ")
		mappings[of] = choice.String() + "'" + of + "'"
	}
	mappings["groups"] = strings.Replace(mappings["groups"], "claims.row == 'groups-long' ?", "claims.row == 'groups-many' ? dyn(lists.range(50000).map(i, claims.s)) : claims.row == 'groups-long' ?", 1)
	config := authenticationHead + i.entry("  claimMappings:\n")
	for of, expr := range mappings {
		config += fmt.Sprintf("    %s: {expression: %s}\n", of, quoted(expr))
	}
	s := startServer(t, "--authentication-config", putFile(t, "authn.yaml", config), "-v", "4")
	v := newVisitor(t, s, nil)
	token := func(row, text string) []string {
		return bearer(i.sign(map[string]any{"row": row, "s": text, "n": 5}))
	}
	eventually(t, "the issuer's keys", func() bool {
		return strings.HasPrefix(v.who(t, token("good", "ann")...), "username uid [groups ")
	})
	before := s.peakMemory(t)
	long := strings.Repeat("a", 40_000)
	want := map[string]string{
		"username": "oidc: error evaluating username claim expression: ", "uid": "oidc: error evaluating uid claim expression: ", "groups": "oidc: error evaluating group claim expression: "}
	refused := func(row, text string, why ...string) {
		t.Run(row, func(t *testing.T) {
			said, began := len(s.log.String()), time.Now()
			if got := v.who(t, token(row, text)...); got != "401" {
				t.Errorf("got %.100s, want 401", got)
			}
			s.ends(t, began, before)
			for _, text := range why {
				eventually(t, "in the server's log: "+text, func() bool { return strings.Contains(s.log.String()[said:], text) })
			}
		})
	}
	for of, says := range want {
		for name, row := range texts {
			if name != "matches" && name != "formatted" || of == "uid" { // they take longest
				refused(of+"-"+name, row.text, says+"expression ", "resulted in error: "+costLimited)
			}
		}
		refused(of+"-long", long, "oidc: the user is larger than 1048576 bytes")
	}
	refused("username-number", "a", "username claim expression must return a string")
	refused("uid-number", "a", "uid claim expression must return a string")
	refused("groups-number", "a", "expression must return a string or a list of strings")
	refused("groups-many", long, "oidc: the user is larger than 1048576 bytes")
}
