package token

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/objects"
	"github.com/keelson-io/keelson/internal/testapi"
)

// This file runs the controller over the API with a store in memory, by a clock that moves only while
// everybody waits.

const in = "/api/v1/namespaces/default/"

// authorities is the certificates of a server, which may change.
type authorities struct {
	atomic.Value
	*trust.Bundle
}

// inBubble runs a test beside a controller, with the service account robot.
func inBubble(t *testing.T, test func(t *testing.T, a *testapi.API, own *authorities)) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		a.Must("POST", in+"serviceaccounts", `{"metadata":{"name":"robot"}}`)
		own := new(authorities)
		own.Value.Store("first\n")
		own.Bundle = &trust.Bundle{Store: a.Store, Own: func() []byte { return []byte(own.Value.Load().(string)) }}
		c := &Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, API: a.As(objects.ControllerManager), Logger: a.Logger,
			Authorities: own.Bundle,
			Sign: func(namespace, account, uid, secret string) (string, error) {
				return strings.Join([]string{namespace, account, uid, secret}, " "), nil
			}}
		a.Run(c.Run)
		test(t, a, own)
	})
}

// settle lets everything happen that happens within a second.
func settle() {
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

func secret(name, account, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"kubernetes.io/service-account.name":%q%s}},"type":"kubernetes.io/service-account-token"}`, name, account, more)
}

func uidOf(a *testapi.API) string {
	var account corev1.ServiceAccount
	a.Get(in+"serviceaccounts/robot", &account)
	return string(account.UID)
}

func TestSecretIsFilledIn(t *testing.T) {
	inBubble(t, func(t *testing.T, a *testapi.API, own *authorities) {
		a.Must("POST", in+"secrets", secret("s", "robot", ""))
		settle()
		var s corev1.Secret
		if !a.Get(in+"secrets/s", &s) {
			t.Fatal("the Secret is gone")
		}
		uid := uidOf(a)
		for key, want := range map[string]string{"token": "default robot " + uid + " s", "namespace": "default", "ca.crt": "first\n"} {
			if got := string(s.Data[key]); got != want {
				t.Errorf("%s: got %q, want %q", key, got, want)
			}
		}
		if got := s.Annotations[corev1.ServiceAccountUIDKey]; got != uid {
			t.Errorf("uid of the account: got %q, want %q", got, uid)
		}
		// What is there stays, and what is missing comes back.
		a.Must("PATCH", in+"secrets/s", `{"data":{"token":"`+base64.StdEncoding.EncodeToString([]byte("mine"))+`","namespace":null}}`)
		settle()
		a.Get(in+"secrets/s", &s)
		if token, namespace := string(s.Data["token"]), string(s.Data["namespace"]); token != "mine" || namespace != "default" {
			t.Errorf("got token %q and namespace %q", token, namespace)
		}
	})
}

func TestSecretsWithoutTheirAccountGo(t *testing.T) {
	inBubble(t, func(t *testing.T, a *testapi.API, own *authorities) {
		a.Must("POST", in+"secrets", secret("kept", "robot", ""))
		a.Must("POST", in+"secrets", secret("nobody", "missing", ""))
		a.Must("POST", in+"secrets", secret("older", "robot", `,"kubernetes.io/service-account.uid":"6f1c8bb2-1c1f-4bb5-9f02-0d2f0b6c1a01"`))
		a.Must("POST", in+"secrets", `{"metadata":{"name":"plain","annotations":{"kubernetes.io/service-account.name":"missing"}}}`)
		settle()
		for name, want := range map[string]bool{"kept": true, "nobody": false, "older": false, "plain": true} {
			if got := a.Exists(in + "secrets/" + name); got != want {
				t.Errorf("Secret %s: there %v, want %v", name, got, want)
			}
		}
		a.Must("DELETE", in+"serviceaccounts/robot", "")
		settle()
		if a.Exists(in+"secrets/kept") || !a.Exists(in+"secrets/plain") {
			t.Error("with its account, a Secret that keeps a token goes, and no other one")
		}
	})
}

func TestNewAuthoritiesReachEverySecret(t *testing.T) {
	inBubble(t, func(t *testing.T, a *testapi.API, own *authorities) {
		for i := range 3 {
			a.Must("POST", in+"secrets", secret(fmt.Sprint("s", i), "robot", ""))
		}
		settle()
		own.Value.Store("second\n")
		if _, err := own.Bundle.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle()
		for i := range 3 {
			var s corev1.Secret
			a.Get(in+"secrets/"+fmt.Sprint("s", i), &s)
			if got := string(s.Data["ca.crt"]); got != "second\n" {
				t.Errorf("Secret s%d: got authorities %q, want the second", i, got)
			}
		}
	})
}

func TestDeletedSecretLeavesTheListOfItsAccount(t *testing.T) {
	inBubble(t, func(t *testing.T, a *testapi.API, own *authorities) {
		a.Must("POST", in+"secrets", secret("s", "robot", ""))
		settle()
		a.Must("PATCH", in+"serviceaccounts/robot", `{"secrets":[{"name":"s"},{"name":"other"}]}`)
		a.Must("DELETE", in+"secrets/s", "")
		settle()
		var account corev1.ServiceAccount
		a.Get(in+"serviceaccounts/robot", &account)
		if len(account.Secrets) != 1 || account.Secrets[0].Name != "other" {
			t.Errorf("got %v, want other alone", account.Secrets)
		}
	})
}
