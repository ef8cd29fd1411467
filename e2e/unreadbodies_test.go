package e2e

import (
	"testing"

	"golang.org/x/net/http2"
)

// TestBodiesNobodyReads lets one user send bodies that no handler reads, with requests whose answers the user does
// not read: a refused write and a read, each with 255 KiB that the server has let in already.
func TestBodiesNobodyReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ method, path string }{
		"refused writes": {"POST", "/api/v1/namespaces"},
		"reads":          {"GET", "/openapi/v2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := besiege(t, 0)
			s.othersAreServed()
			before := s.peakMemory(t)
			part := make([]byte, 15<<10)
			for range 64 {
				conn := s.speak(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				for range 15 {
					id := conn.next
					conn.send(malloryToken, c.method, c.path, 1<<20)
					for range 17 {
						if err := conn.WriteData(id, false, part); err != nil {
							t.Fatal(err)
						}
					}
				}
				conn.WritePing(false, [8]byte{1})
				conn.readUntil("answers", func() bool { return len(conn.codes) == 15 && conn.ended[0] })
			}
			s.othersAreServed()
			grown := s.peakMemory(t) - before
			t.Logf("peak memory grew by %d MiB", grown>>20)
			if grown > 160<<20 {
				t.Errorf("peak memory grew by %d MiB, want little of the 240 MiB of bodies", grown>>20)
			}
		})
	}
}
