// This file has the flag --serve of "convert".

package convert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-io/keelson/internal/conversion/declared"
	"github.com/keelson-io/keelson/internal/keysize"
	"github.com/keelson-io/keelson/internal/watchfile"
)

// serveConversions are the flags of the conversion webhook.
type serveConversions struct {
	on        bool
	address   string
	port      int
	cert, key string
}

func (s *serveConversions) add(f *pflag.FlagSet) {
	f.BoolVar(&s.on, "serve", false, "serve a conversion webhook at https://ADDRESS:PORT/convert")
	f.StringVar(&s.address, "bind-address", "127.0.0.1", "with --serve, `address` to listen on; 0.0.0.0 for all")
	f.IntVar(&s.port, "secure-port", 9443, "with --serve, `port` to listen on; 0 for a free one")
	f.StringVar(&s.cert, "tls-cert-file", "", "with --serve, `file` with the serving certificate, followed by its chain")
	f.StringVar(&s.key, "tls-private-key-file", "", "with --serve, `file` with the key of --tls-cert-file")
}

// check returns an error for flags that are missing or wrong.
func (s *serveConversions) check() error {
	switch {
	case s.cert == "" || s.key == "":
		return errors.New("--serve: want --tls-cert-file and --tls-private-key-file, because clusters call webhooks over TLS only")
	case net.ParseIP(s.address) == nil:
		return fmt.Errorf("--bind-address: got %q, want an IP address", s.address)
	case s.port < 0 || s.port > 65535:
		return fmt.Errorf("--secure-port: got %d, want 0 to 65535", s.port)
	}
	return nil
}

// servingCertificate is the certificate in two files, which is read again when they change.
type servingCertificate struct {
	cert, key string
	current   atomic.Pointer[tls.Certificate]
}

// load reads the files. After an error the certificate stays as it is.
func (s *servingCertificate) load() error {
	if err := keysize.CheckFiles(s.cert, s.key); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return fmt.Errorf("reading %s and %s: %w", s.cert, s.key, err)
	}
	s.current.Store(&pair)
	return nil
}

// run serves until the context ends. Then it waits for requests that have begun.
func (s *serveConversions) run(ctx context.Context, conversions []sourcedConversion, notes io.Writer) error {
	logger := slog.New(slog.NewTextHandler(notes, nil))
	certificate := &servingCertificate{cert: s.cert, key: s.key}
	if err := certificate.load(); err != nil {
		return err
	}
	var converters []*declared.Converter
	var names []string
	for _, c := range conversions {
		converters, names = append(converters, c.Converter), append(names, c.Name())
	}
	mux := http.NewServeMux()
	mux.Handle("/convert", declared.NewHandler(converters...))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return certificate.current.Load(), nil
		}},
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(s.address, strconv.Itoa(s.port)))
	if err != nil {
		return fmt.Errorf("%w: choose another address with --bind-address and --secure-port", err)
	}
	watch := watchfile.New(func() {
		if err := certificate.load(); err != nil {
			logger.Error("the certificate was not read again", "err", err)
		}
	}, s.cert, s.key)
	watch.Logger, watch.What = logger, "certificate"
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go watch.Run(ctx)
	fmt.Fprintf(notes, "keelson: converting %s at https://%s/convert\n", strings.Join(names, ", "), listener.Addr())
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(last)
}
