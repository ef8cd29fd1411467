package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/api/admit"
	"github.com/keelson-io/keelson/internal/api/encoding"
	"github.com/keelson-io/keelson/internal/api/stream"
	"github.com/keelson-io/keelson/internal/buffer"
	"github.com/keelson-io/keelson/internal/negotiation"
	"github.com/keelson-io/keelson/internal/status"
)

// This file writes answers: bytes of JSON in, the negotiated encoding out.

// send answers with a JSON document, without a newline at its end, in the
// negotiated encoding.
func (q *request) send(code int, doc []byte) {
	if q.audit != nil {
		q.audit.ResponseObject(func() []byte { return doc })
	}
	var err error
	switch {
	case q.accept.Protobuf:
		q.sendAsProtobuf(code, doc)
	case q.accept.YAML:
		err = q.sendYAML(code, doc)
	case q.accept.Pretty:
		err = q.sendPretty(code, doc)
	default:
		q.sendJSON(code, doc)
	}
	if err != nil {
		q.accept = encoding.Answer{}
		q.fail(err)
	}
}

// sendJSON answers with a document as it is.
func (q *request) sendJSON(code int, doc []byte) {
	h := q.w.Header()
	h["Content-Type"] = jsonHeader
	if len(doc)+len(newline) > negotiation.GzipAbove && negotiation.AcceptsGzip(q.r) {
		q.sendGzip(code, doc, newline)
		return
	}
	h["Content-Length"] = []string{strconv.Itoa(len(doc) + len(newline))}
	q.header(code)
	if q.r.Method == http.MethodHead {
		return
	}
	if len(doc) < 16<<10 { // one small write is cheaper than two
		b := buffer.Get()
		*b = append(append(*b, doc...), '\n')
		q.w.Write(*b)
		buffer.Put(b)
		return
	}
	q.w.Write(doc)
	q.w.Write(newline)
}

// sendPretty answers with an indented document, without a newline at its end, as upstream does.
func (q *request) sendPretty(code int, doc []byte) error {
	a := q.reply(code, jsonHeader)
	defer a.end()
	n := stream.Indenter{To: &a.Pieces}
	if err := n.Add(doc); err != nil {
		return a.fail(err)
	}
	return a.finish()
}

// sendYAML answers with a document in YAML.
func (q *request) sendYAML(code int, doc []byte) error {
	a := q.reply(code, yamlHeader)
	defer a.end()
	if err := a.yaml(doc); err != nil {
		return a.fail(err)
	}
	return a.finish()
}

// yaml adds the JSON document that the parts form, as YAML, or unchanged if it cannot be converted.
func (a *reply) yaml(parts ...[]byte) error {
	cost := 0
	for _, part := range parts {
		cost += 10*len(part) + 512*values(part)
	}
	if err := a.Build(cost); err != nil {
		return err
	}
	doc := parts[0]
	if len(parts) > 1 {
		doc = bytes.Join(parts, nil)
	}
	text, err := yaml.JSONToYAML(doc)
	switch {
	case err == nil:
	case len(parts) == 1:
		text = append(doc[:len(doc):len(doc)], '\n')
	default: // an item, in brackets
		text = append(append([]byte("- "), doc[1:len(doc)-1]...), '\n')
	}
	a.Room.Shrink(len(text))
	return a.Share(text)
}

// values returns how many values and keys a JSON text has at most.
func values(text []byte) int {
	n := 1
	for _, c := range []byte{',', ':', '[', '{'} {
		n += bytes.Count(text, []byte{c})
	}
	return n
}

// sendBytes answers with bytes of a media type.
func (q *request) sendBytes(code int, media []string, body []byte) {
	h := q.w.Header()
	h["Content-Type"] = media
	if len(body) > negotiation.GzipAbove && negotiation.AcceptsGzip(q.r) {
		q.sendGzip(code, body)
		return
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	q.header(code)
	if q.r.Method != http.MethodHead {
		q.w.Write(body)
	}
}

var (
	jsonHeader = []string{encoding.JSON}
	yamlHeader = []string{encoding.YAML}
	newline    = []byte{'\n'}

	protobufHeader = []string{encoding.Protobuf}
)

// sendGzip sends an answer compressed.
func (q *request) sendGzip(code int, parts ...[]byte) {
	q.gzipped(code, func(w io.Writer) {
		for _, p := range parts {
			w.Write(p)
		}
	})
}

// gzipped answers with what write writes, compressed.
func (q *request) gzipped(code int, write func(io.Writer)) {
	negotiation.MarkGzip(q.w.Header())
	q.header(code)
	if q.r.Method != http.MethodHead {
		negotiation.Gzip(q.w, write)
	}
}

// header writes the warnings and the status line.
func (q *request) header(code int) {
	q.holds.Leave()
	if code >= http.StatusBadRequest {
		q.holds.AwaitEnd(q.w)
	}
	q.answers()
	q.writeWarnings()
	q.code = code
	q.audit.Code(code)
	q.w.WriteHeader(code)
}

// plain answers with text.
func (q *request) plain(code int, text string) {
	h := q.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if h["X-Content-Type-Options"] == nil {
		h.Set("X-Content-Type-Options", "nosniff")
	}
	q.header(code)
	if q.r.Method != http.MethodHead {
		q.w.Write([]byte(text))
	}
}

// fail answers with the Status of an error.
func (q *request) fail(err error) {
	if q.code == 0 && q.failPlainly(err) {
		return
	}
	e := status.From(err)
	if q.code != 0 {
		// The answer has begun: the error cannot be sent any more.
		q.h.logger.Debug("error after the answer began", "path", q.path, "error", e.Message)
		return
	}
	st := e.Status
	st.Kind, st.APIVersion = "Status", "v1"
	if st.Code == 0 {
		st.Code = http.StatusInternalServerError
	}
	if st.Status == "" {
		st.Status = metav1.StatusFailure
	}
	if own := (*status.Error)(nil); st.Code == http.StatusInternalServerError && (!errors.As(err, &own) || own.Cause != nil) {
		// An unexpected error is logged for the operator.
		q.h.logger.Error("request ended in an internal error", "method", q.r.Method, "path", q.path, "error", err)
	}
	if d := st.Details; d != nil && d.RetryAfterSeconds > 0 {
		q.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	q.accept = encoding.NegotiateStatus(q.r)
	q.sendStatus(int(st.Code), &st)
}

// plainError is an error whose answer is text, not a Status.
type plainError struct {
	code int
	text string
}

// Error implements error.
func (e plainError) Error() string { return e.text }

// failPlainly answers with an error whose answer is text. It reports whether the error is one.
func (q *request) failPlainly(err error) bool {
	var plain plainError
	var full admit.TooMany
	switch {
	case errors.As(err, &full):
		q.w.Header().Set("Retry-After", strconv.FormatInt(full.After, 10))
		plain = plainError{http.StatusTooManyRequests, full.Error() + "\n"}
	case !errors.As(err, &plain):
		return false
	}
	q.plain(plain.code, plain.text)
	return true
}

// sendStatus answers with a Status, never transformed.
func (q *request) sendStatus(code int, st *metav1.Status) {
	q.audit.ResponseStatus(st)
	body, err := json.Marshal(st)
	if err != nil {
		panic("BUG: status does not marshal: " + err.Error())
	}
	q.send(code, body)
}

// Limits of the Warning headers of one answer, in runes.
const (
	maxWarnings    = 4096 // of all; once they are longer …
	warningShorter = 256  // … each is cut to this
)

// warn adds a warning to the answer.
func (q *request) warn(texts ...string) { q.warnings = append(q.warnings, texts...) }

// writeWarnings puts the warnings into the header, each text once.
func (q *request) writeWarnings() {
	if len(q.warnings) == 0 {
		return
	}
	seen := make(map[string]bool, len(q.warnings))
	total, full := 0, -1 // the text that is too much: up to it none is left out
	var kept []string
	for _, text := range q.warnings {
		if text != "" && !seen[text] {
			seen[text] = true
			kept = append(kept, text)
			if total += len([]rune(text)); total > maxWarnings && full < 0 {
				full = len(kept) - 1
			}
		}
	}
	written := 0
	for i, text := range kept {
		if full >= 0 {
			if i > full && written >= maxWarnings {
				return
			}
			if r := []rune(text); len(r) > warningShorter {
				text = string(r[:warningShorter])
			}
			written += len([]rune(text))
		}
		if header, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
			q.w.Header().Add("Warning", header)
		}
	}
}
