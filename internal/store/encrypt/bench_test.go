package encrypt

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/keelson-io/keelson/internal/store/etcd"
	"github.com/keelson-io/keelson/internal/store/mem"
)

// BenchmarkSeal encrypts and decrypts values of 2 KB.
func BenchmarkSeal(b *testing.B) {
	value := bytes.Repeat([]byte(`{"a":"b"}`), 230)
	for _, provider := range []string{"aescbc", "aesgcm", "secretbox"} {
		s := New(mem.New(mem.Options{}), benchRules(b, provider), Options{Resource: allOf(secrets), Logger: slog.New(slog.DiscardHandler)})
		b.Run(provider, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sealed, err := s.seal(b.Context(), "secrets/a/a", value)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := s.open(b.Context(), "secrets/a/a", sealed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchRules(b *testing.B, provider string) *Rules {
	c, err := Decode([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers: [" + keyFor(provider, "a", 1) + "]\n"))
	if err != nil {
		b.Fatal(err)
	}
	r, err := NewRules(b.Context(), c, PluginOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkCreate creates values of 2 KB on disk, eight at a time, with and without encryption.
func BenchmarkCreate(b *testing.B) {
	value := bytes.Repeat([]byte(`{"a":"b"}`), 230)
	for _, provider := range []string{"none", "aesgcm"} {
		b.Run(provider, func(b *testing.B) {
			logger := slog.New(slog.DiscardHandler)
			dir := b.TempDir()
			inner, err := etcd.Open(b.Context(), etcd.Config{DataDir: dir + "/etcd", Prefix: "/registry", Logger: logger})
			if err != nil {
				b.Fatal(err)
			}
			defer inner.Close()
			s := inner
			if provider != "none" {
				s = New(inner, benchRules(b, provider), Options{Prefix: "/registry", Resource: allOf(secrets), Logger: logger})
			}
			b.SetParallelism(4)
			n := make(chan int)
			go func() {
				for i := 0; ; i++ {
					select {
					case n <- i:
					case <-b.Context().Done():
						return
					}
				}
			}()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Create(b.Context(), fmt.Sprint("secrets/a/", <-n), value); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
