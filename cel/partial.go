package cel

type attribute struct {
	name  string
	slot  int
	steps []step
	test  bool
}

func (a *attribute) code() *code                    { return nil }
func (a *attribute) extend(s step, test bool) *code { return nil }

type trace struct{}

func (t *trace) node(c *compiler, e any) *code { return nil }
func (t *trace) used(v *variable)              {}
