package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file holds what rules that somebody wrote to do harm can cost: each evaluation ends at its limit, in upstream's words,
// in bounded memory, and when its client has gone.

// hostileRule is a rule on one member of the objects of a kind that has many such members.
type hostileRule struct {
	name, schema, rule string
	value              any
	want               string // in the refusal; empty: the object is accepted
}

const (
	overLimit = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: "
	textType  = `{"type":"string"}`
)

func hostileRules() []hostileRule {
	ints := func(n int) []int { return make([]int, n) }
	doubled := "self"
	for i := range 12 {
		doubled = fmt.Sprintf("[%s].map(x%d, x%d + x%d)[0]", doubled, i, i, i)
	}
	long := strings.Repeat("a", 1<<20)
	return []hostileRule{
		{"exponent", textType, "quantity(self).isInteger()", "1e-2147483648", overLimit},
		{"digits", textType, "isQuantity(self)", strings.Repeat("9", 1<<20), overLimit},
		{"loops", `{"type":"array","maxItems":100,"items":{"type":"integer"}}`, "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))", ints(100), overLimit},
		{"large", `{"type":"array","items":{"type":"integer"}}`, "self.all(x, x >= 0)", ints(1_000_000), overLimit},
		{"doubling", `{"type":"string","maxLength":10}`, doubled + ".size() > 0", "aaaaaaaaaa", ""},
		{"machine", textType, "!self.matches('(.?){1000}(.?){1000}x$')", strings.Repeat("é", 1<<19), overLimit},
		{"dynamic", `{"type":"string","maxLength":4000}`, "'aaa'.find('(' + self + ')*') == ''", strings.Repeat("a{1000}", 500), overLimit},
		{"nothing", textType, "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20].all(i, self.findAll('').size() > i)", long, overLimit},
		{"formatted", textType, "'%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s'.format([self, self, self, self, self, self, self, self, self, self, self, self, self, self, self, self, self, self]) != ''", long, overLimit},
		{"search", textType, "self.lastIndexOf('b' + self.substring(500000)) < 0", long, ""},
		{"address", textType, "!isIP(self) && !isCIDR(self) && !isSemver(self) && !isURL(self)", long, ""},
	}
}

// hostileDefinition is a definition whose objects have a member for each rule.
func hostileDefinition(rules []hostileRule, more string) []byte {
	var props []string
	for _, r := range rules {
		node := strings.TrimSuffix(r.schema, "}") + `,"x-kubernetes-validations":[{"rule":` + strconv.Quote(r.rule) + `}]}`
		props = append(props, strconv.Quote(r.name)+":"+node)
	}
	return []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"trials.demo.example.org"},"spec":{
		"group":"demo.example.org","scope":"Namespaced","names":{"plural":"trials","singular":"trial","kind":"Trial","listKind":"TrialList"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"` + more + `,"properties":{` + strings.Join(props, ",") + `}}}}]}}`)
}

func trial(t *testing.T, member string, value any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"apiVersion": "demo.example.org/v1", "kind": "Trial", "metadata": map[string]any{"generateName": "t-"}, member: value})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHostileRules writes objects that hostile rules are for, alone and many at once, and hangs up in the middle.
func TestHostileRules(t *testing.T) {
	s := startServer(t)
	const definitions, list = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/demo.example.org/v1/namespaces/default/trials"
	refused := s.do(t, 422, "POST", definitions, hostileDefinition(nil, `,"x-kubernetes-validations":[{"rule":"`+strings.Repeat("(", 300)+"1"+strings.Repeat(")", 300)+`"}]`))
	if want := "expression recursion limit exceeded"; !strings.Contains(string(refused), want) {
		t.Errorf("300 parentheses: got %s, want in it %q", tail(string(refused), 500), want)
	}
	refused = s.do(t, 422, "POST", definitions, hostileDefinition([]hostileRule{{"x", textType, strings.Repeat("self.matches('(a{1000}){1}') && ", 300) + "true", "", ""}}, ""))
	if want := "the patterns of the rules are too large"; !strings.Contains(string(refused), want) {
		t.Errorf("patterns: got %s, want in it %q", tail(string(refused), 500), want)
	}
	rules := hostileRules()
	many := `{"rule":"has(self.metadata)"}` + strings.Repeat(`,{"rule":"!has(self.none) || self.none.size() >= 0"}`, 2000)
	all := append(rules, hostileRule{"none", textType, "self != 'x'", "", ""})
	s.do(t, 201, "POST", definitions, hostileDefinition(all, `,"x-kubernetes-validations":[`+many+`]`))
	eventually(t, "trials served", func() bool {
		code, _, err := s.try("GET", list, nil)
		return err == nil && code == 200
	})
	s.do(t, 201, "POST", list, trial(t, "doubling", "a"))
	before := s.peakMemory(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			began := time.Now()
			code := 201
			if r.want != "" {
				code = 422
			}
			b := s.do(t, code, "POST", list, trial(t, r.name, r.value))
			if r.want != "" && !strings.Contains(string(b), r.want) {
				t.Errorf("got %s, want in it %q", tail(string(b), 1000), r.want)
			}
			t.Logf("%d in %v, %d MiB", code, time.Since(began).Round(time.Millisecond), s.peakMemory(t)>>20)
		})
	}
	t.Run("many at once", func(t *testing.T) {
		var writers sync.WaitGroup
		for _, r := range append(rules, rules...) {
			writers.Go(func() {
				if code, b, err := s.try("POST", list, trial(t, r.name, r.value)); err != nil || code != 201 && code != 422 {
					t.Errorf("%s: %d, %v: %s", r.name, code, err, tail(string(b), 200))
				}
			})
		}
		slowest := time.Duration(0)
		for range 20 {
			began := time.Now()
			s.do(t, 200, "GET", "/api/v1/namespaces/default", nil)
			slowest = max(slowest, time.Since(began))
		}
		writers.Wait()
		t.Logf("the slowest of 20 reads meanwhile: %v", slowest)
	})
	if grown := s.peakMemory(t) - before; grown > 1<<30 {
		t.Errorf("peak memory grew by %d MiB", grown>>20)
	}
	t.Logf("peak memory: %d MiB, %d MiB of it by then", s.peakMemory(t)>>20, before>>20)
	s.do(t, 200, "DELETE", definitions+"/trials.demo.example.org", nil)
}

// TestHangingUp: an evaluation ends when its client has gone.
func TestHangingUp(t *testing.T) {
	s := startServer(t)
	rules := []hostileRule{{"o", `{"type":"object","properties":{"t":{"type":"string"},"l":{"type":"array","maxItems":100000,"items":{"type":"integer"}}}}`,
		"self.l.all(x, self.t.charAt(5) == 'é')", nil, ""}}
	many := `{"rule":"true"}` + strings.Repeat(`,{"rule":"self.o.t.charAt(5) == 'é'"}`, 3000)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", hostileDefinition(rules, `,"x-kubernetes-validations":[`+many+`]`))
	const list = "/apis/demo.example.org/v1/namespaces/default/trials"
	eventually(t, "trials served", func() bool {
		code, _, err := s.try("GET", list, nil)
		return err == nil && code == 200
	})
	body := trial(t, "o", map[string]any{"t": strings.Repeat("é", 1<<19), "l": make([]int, 100_000)})
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "POST", s.url(list), bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if resp, err := s.http.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	writers.Wait()
	eventually(t, "the server has nothing to do", func() bool {
		before := s.cpuTicks(t)
		time.Sleep(300 * time.Millisecond)
		return s.cpuTicks(t)-before < 15
	})
}

// cpuTicks is the time, in hundredths of a second, that the process has spent on processors.
func (s *server) cpuTicks(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}
