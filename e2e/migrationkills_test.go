package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
)

// This file migrates the objects of a definition from one storage version to another, as its users do, with two servers before one
// etcd, which are killed meanwhile: no object is lost, none becomes unreadable, and none changes.

const (
	migratedObjects = 300
	migrationRounds = 3
	migrationKills  = 2 // in each round
	versionedPath   = "/apis/demo.io/%s/namespaces/default/docs"
)

// migrated is two servers, and the objects that are migrated.
type migrated struct {
	*testing.T
	servers [2]*server
	random  *rand.Rand
	objects map[string]any // by name, as they were created, without what a migration changes
	made    int            // the number of objects that writers tried to create
	again   int            // how often a version could not be dropped at the first attempt
}

// migrationSeed returns KEELSON_MIGRATION_SEED, or a new seed. The test logs it.
func migrationSeed(t *testing.T) *rand.Rand {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("KEELSON_MIGRATION_SEED"), fmt.Sprint(rand.Uint64())), 10, 64)
	if err != nil {
		t.Fatalf("KEELSON_MIGRATION_SEED: %v", err)
	}
	t.Logf("KEELSON_MIGRATION_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 5))
}

// startMigrated starts the servers, with some objects of a definition whose storage version is v1.
func startMigrated(t *testing.T, objects int, args ...string) *migrated {
	t.Helper()
	etcd := startMembers(t, 1)
	m := &migrated{T: t, random: migrationSeed(t), objects: map[string]any{}}
	for i := range m.servers {
		m.servers[i] = startServer(t, append(etcd.args(), args...)...)
	}
	m.any().do(t, 201, "POST", crdPath, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"docs.demo.io"},
		"spec":{"group":"demo.io","scope":"Namespaced","names":{"plural":"docs","kind":"Doc"},`+migratedVersions("v1", "v2")+`}}`))
	var group sync.WaitGroup
	for w := range 8 {
		s := m.any()
		group.Go(func() {
			for i := w; i < objects; i += 8 {
				if err := createDoc(s, "v1", fmt.Sprintf("d%03d", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	m.objects = m.read(m.any(), "v1")
	if len(m.objects) != objects {
		t.Fatalf("got %d objects, want %d", len(m.objects), objects)
	}
	return m
}

// migratedVersions returns the versions of the definition, the storage version first.
func migratedVersions(storage string, others ...string) string {
	var all []string
	for i, name := range append([]string{storage}, others...) {
		all = append(all, fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
			"properties":{"text":{"type":"string"},"n":{"type":"integer"}}}}}}}`, name, i == 0))
	}
	return `"versions":[` + strings.Join(all, ",") + `]`
}

func createDoc(s *server, version, name string) error {
	code, b, err := s.try("POST", fmt.Sprintf(versionedPath, version), fmt.Appendf(nil,
		`{"apiVersion":"demo.io/%s","kind":"Doc","metadata":{"name":%q,"labels":{"of":%q},"finalizers":["demo.io/f"]},"spec":{"text":"text of %s","n":%d}}`, version, name, name, name, len(name)))
	if err == nil && code != 201 {
		err = fmt.Errorf("create %s in %s: got %d %s", name, version, code, b)
	}
	return err
}

// any returns one of the servers.
func (m *migrated) any() *server { return m.servers[m.random.IntN(len(m.servers))] }

// read returns all objects by name, without what a migration changes.
func (m *migrated) read(s *server, version string) map[string]any {
	m.Helper()
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(s.do(m.T, 200, "GET", fmt.Sprintf(versionedPath, version), nil), &list); err != nil {
		m.Fatal(err)
	}
	all := map[string]any{}
	for _, o := range list.Items {
		meta := o["metadata"].(map[string]any)
		delete(o, "apiVersion")
		delete(meta, "resourceVersion")
		all[meta["name"].(string)] = o
	}
	return all
}

// check fails the test unless every object is as it was created, at both servers and by itself.
func (m *migrated) check(what, version string) {
	m.Helper()
	for _, s := range m.servers {
		got := m.read(s, version)
		for name, want := range m.objects {
			if !reflect.DeepEqual(got[name], want) {
				m.Errorf("%s: %s: got %v, want %v", what, name, got[name], want)
			}
		}
		// An object whose creation was not answered may be there.
		for name := range got {
			if m.objects[name] == nil && !strings.HasPrefix(name, "n-") {
				m.Errorf("%s: nobody created %s", what, name)
			}
		}
		m.objects = got
	}
	for range 5 {
		name := fmt.Sprintf("d%03d", m.random.IntN(migratedObjects))
		m.any().do(m.T, 200, "GET", fmt.Sprintf(versionedPath, version)+"/"+name, nil)
	}
}

// patch merges a text into the definition.
func (m *migrated) patch(want int, subresource, text string) string {
	m.Helper()
	return string(m.any().do(m.T, want, "PATCH", crdPath+"/docs.demo.io"+subresource, []byte(text), "Content-Type", "application/merge-patch+json"))
}

// while runs migrate, which may call the servers in turn, while servers are killed and started again and a client creates objects in
// the old version.
func (m *migrated) while(old string, migrate func() error) {
	m.Helper()
	stop, created := make(chan struct{}), make(chan []string, 1)
	first := m.made
	go func() {
		var names []string
		defer func() { created <- names }()
		for n := first; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			m.made = n + 1
			if name := fmt.Sprintf("n-%d", n); createDoc(m.servers[n%2], old, name) == nil {
				names = append(names, name)
			}
		}
	}()
	ended, early := make(chan error, 1), 0
	go func() { ended <- migrate() }()
	for range migrationKills {
		time.Sleep(time.Duration(m.random.IntN(200)) * time.Millisecond)
		if len(ended) == 0 {
			early++
		}
		killed := []*server{m.any()}
		if m.random.IntN(3) == 0 {
			killed = m.servers[:]
		}
		for _, s := range killed {
			s.stop(syscall.SIGKILL)
		}
		time.Sleep(time.Duration(m.random.IntN(50)) * time.Millisecond)
		for _, s := range killed {
			s.start()
		}
	}
	if err := <-ended; err != nil {
		m.Fatal(err)
	}
	close(stop)
	names := <-created
	got := m.read(m.any(), old)
	for _, name := range names {
		if m.objects[name] = got[name]; got[name] == nil {
			m.Errorf("%s: its creation was answered, but it is not there", name)
		}
	}
	m.Logf("%d of %d kills during the migration, %d objects created meanwhile", early, migrationKills, len(names))
}

// ask sends a request to one server after the other until one answers with other than an error that may pass.
func (m *migrated) ask(method, path string, body []byte, header ...string) (code int, b []byte, err error) {
	for began, n := time.Now(), 0; time.Since(began) < testkit.Patience; n++ {
		if code, b, err = m.servers[n%2].try(method, path, body, header...); err == nil && code < 500 && code != http.StatusTooManyRequests {
			return code, b, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return code, b, fmt.Errorf("%s %s: got %d %s, %v after %v", method, path, code, b, err, testkit.Patience)
}

// rounds migrates the objects from v1 to v2 and back, some times. After each migration the old version is taken off
// status.storedVersions, and then off spec.versions.
func (m *migrated) rounds(migrate func(round int, from, to string) error) {
	m.Helper()
	from, to := "v1", "v2"
	for round := range migrationRounds {
		what := fmt.Sprintf("round %d, %s to %s", round, from, to)
		m.patch(200, "", `{"spec":{`+migratedVersions(to, from)+`}}`)
		m.while(from, func() error { return migrate(round, from, to) })
		m.check(what+", migrated", from)
		for attempt := 1; ; attempt++ {
			m.patch(200, "/status", fmt.Sprintf(`{"status":{"storedVersions":[%q]}}`, to))
			code, b, err := m.ask("PATCH", crdPath+"/docs.demo.io", []byte(`{"spec":{`+migratedVersions(to)+`}}`), "Content-Type", "application/merge-patch+json")
			if err != nil {
				m.Fatal(err)
			}
			if code == 200 {
				break
			}
			// A server that did not know the new storage version yet has stored an object in the old one.
			if code != 422 || !strings.Contains(string(b), "still stored as demo.io/"+from+", such as default/n-") || attempt == 3 {
				m.Fatalf("%s: got %d %s", what, code, b)
			}
			m.again++
			if err := migrate(round+100*attempt, from, to); err != nil {
				m.Fatal(err)
			}
		}
		m.check(what+", old version dropped", to)
		if round < migrationRounds-1 {
			m.patch(200, "", `{"spec":{`+migratedVersions(to, from)+`}}`)
			from, to = to, from
		}
	}
	m.Logf("%d objects in the end; a version could not be dropped at once %d times", len(m.objects), m.again)
}

// premature fails the test unless the old version cannot be dropped while objects are in it, although status.storedVersions does not
// have it.
func (m *migrated) premature() {
	m.Helper()
	m.patch(200, "", `{"spec":{`+migratedVersions("v2", "v1")+`}}`)
	m.patch(200, "/status", `{"status":{"storedVersions":["v2"]}}`)
	want := fmt.Sprintf("must have v1: %d objects are still stored as demo.io/v1, such as default/d000,", migratedObjects)
	if got := m.patch(422, "", `{"spec":{`+migratedVersions("v2")+`}}`); !strings.Contains(got, want) {
		m.Errorf("got %s, want %s", got, want)
	}
}

// TestMigrationBesideStoppedServer stops the process of a server while the other one migrates the objects and drops the old version.
// Requests that wait for the stopped server meanwhile store nothing in the old version when it goes on.
//
// Ledger: storage-version-changes.
func TestMigrationBesideStoppedServer(t *testing.T) {
	t.Parallel()
	m := startMigrated(t, 20)
	running, stopped := m.servers[0], m.servers[1]
	merge := []string{"Content-Type", "application/merge-patch+json"}
	from, to := "v1", "v2"
	for round := range 5 {
		signal := func(s syscall.Signal) {
			if err := stopped.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		definition := func(text string) {
			running.do(t, 200, "PATCH", crdPath+"/docs.demo.io", []byte(`{"spec":{`+text+`}}`), merge...)
		}
		signal(syscall.SIGSTOP)
		definition(migratedVersions(to, from))
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() { _ = createDoc(stopped, from, fmt.Sprintf("n-%d-%d", round, i)) })
			group.Go(func() {
				_, _, _ = stopped.try("PATCH", fmt.Sprintf(versionedPath, from)+fmt.Sprintf("/d%03d", i), fmt.Appendf(nil, `{"spec":{"n":%d}}`, round*100+i), merge...)
			})
		}
		for name := range m.objects {
			running.do(t, 200, "PATCH", fmt.Sprintf(versionedPath, to)+"/"+name, []byte("{}"), merge...)
		}
		running.do(t, 200, "PATCH", crdPath+"/docs.demo.io/status", fmt.Appendf(nil, `{"status":{"storedVersions":[%q]}}`, to), merge...)
		definition(migratedVersions(to))
		signal(syscall.SIGCONT)
		group.Wait()
		m.objects = m.read(running, to) // all can be read
		definition(migratedVersions(to, from))
		stopped.do(t, 200, "GET", fmt.Sprintf(versionedPath, from), nil)
		from, to = to, from
	}
}

// TestMigrationByController migrates encrypted objects by StorageVersionMigrations, as kube-storage-version-migrator's users do.
func TestMigrationByController(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	encryptionConfig(t, file, "one=1")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, file, strings.Replace(string(config), "'*.example.com'", "docs.demo.io", 1))
	m := startMigrated(t, migratedObjects, "--encryption-provider-config", file)
	m.premature()
	const path = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
	m.rounds(func(round int, _, _ string) error {
		name := fmt.Sprintf("docs-%d", round)
		body := fmt.Appendf(nil, `{"apiVersion":"storagemigration.k8s.io/v1","kind":"StorageVersionMigration","metadata":{"name":%q},"spec":{"resource":{"group":"demo.io","resource":"docs"}}}`, name)
		if code, b, err := m.ask("POST", path, body); err != nil || code != 201 && code != 409 { // it may have been created by an attempt that was not answered
			return fmt.Errorf("%s: got %d %s, %v", name, code, b, err)
		}
		for began := time.Now(); time.Since(began) < testkit.Patience; time.Sleep(5 * time.Millisecond) {
			code, b, err := m.ask("GET", path+"/"+name, nil)
			if err != nil || code != 200 {
				return fmt.Errorf("%s: got %d %s, %v", name, code, b, err)
			}
			var got struct {
				Status struct {
					Conditions []struct{ Type, Status, Message string }
				}
			}
			if err := json.Unmarshal(b, &got); err != nil {
				return err
			}
			for _, c := range got.Status.Conditions {
				if c.Type == "Failed" && c.Status == "True" {
					return fmt.Errorf("%s has failed: %s", name, c.Message)
				}
				if c.Type == "Succeeded" && c.Status == "True" {
					return nil
				}
			}
		}
		return fmt.Errorf("%s does not end", name)
	})
}

// TestMigrationByClient migrates objects as cluster-api's crdmigrator does: it lists them in pages, applies a configuration without
// fields to each, in the new version, and then takes the old version off status.storedVersions.
//
// Ledger: dropped-versions.
func TestMigrationByClient(t *testing.T) {
	t.Parallel()
	m := startMigrated(t, migratedObjects)
	m.premature()
	m.rounds(func(_ int, _, to string) error {
		path, next := fmt.Sprintf(versionedPath, to), ""
		for {
			code, b, err := m.ask("GET", path+"?limit=50&continue="+next, nil, "Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
			if err != nil || code != 200 {
				return fmt.Errorf("list: got %d %s, %v", code, b, err)
			}
			var page struct {
				Metadata struct{ Continue string }
				Items    []struct {
					Metadata struct{ Name, UID, ResourceVersion string }
				}
			}
			if err := json.Unmarshal(b, &page); err != nil {
				return err
			}
			for chunk := range slices.Chunk(page.Items, 10) {
				var group sync.WaitGroup
				errs := make([]error, len(chunk))
				for i, o := range chunk {
					group.Go(func() {
						config := fmt.Appendf(nil, `{"apiVersion":"demo.io/%s","kind":"Doc","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q}}`,
							to, o.Metadata.Name, o.Metadata.UID, o.Metadata.ResourceVersion)
						code, b, err := m.ask("PATCH", path+"/"+o.Metadata.Name+"?fieldManager=crdmigrator&force=true", config, "Content-Type", "application/apply-patch+yaml")
						if err != nil || code != 200 && code != 409 { // another writer, or this one before its server was killed
							errs[i] = fmt.Errorf("%s: got %d %s, %v", o.Metadata.Name, code, b, err)
						}
					})
				}
				group.Wait()
				if err := cmp.Or(errs...); err != nil {
					return err
				}
			}
			if next = page.Metadata.Continue; next == "" {
				return nil
			}
		}
	})
}
