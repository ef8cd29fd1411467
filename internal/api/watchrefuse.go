package api

import "errors"

// This file refuses watches.

// inStream is an error that is sent as an event.
type inStream struct{ err error }

// Error returns the text of the error.
func (e *inStream) Error() string { return e.err.Error() }

// refuse sends the error as the only event of a watch.
func (w *watcher) refuse(err error) {
	if in := (*inStream)(nil); errors.As(err, &in) {
		err = in.err
	}
	w.start()
	w.send(w.appendError(nil, err)) // the client is gone: the error of the write means nothing
}
