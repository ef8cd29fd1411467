package describe

// OrDefault sets what is not there.
func OrDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
