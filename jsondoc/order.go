package jsondoc

// This file prints objects in an order of members other than by name.

// Order is the order in which the members of an object are printed. Orders may be recursive. They
// do not change once they are used.
type Order struct {
	// Members come first, in this order. Other members follow, sorted by name.
	Members []OrderedMember
	// Others is the order within the other members; nil means sorted by name.
	Others *Order
	// HasNulls: a member, here or below, has EmptyIsNull.
	HasNulls bool
}

// OrderedMember is a member of an Order.
type OrderedMember struct {
	Name string
	// Within is the order of the member, or of the items of a list; nil means sorted by name.
	Within *Order
	// EmptyIsNull: NullEmpty replaces an empty list or map by null.
	EmptyIsNull bool
}

// has reports whether name is one of the ordered members.
func (o *Order) has(name string) bool {
	for i := range o.Members {
		if o.Members[i].Name == name {
			return true
		}
	}
	return false
}

// AppendOrdered appends n as JSON to b, as AppendJSON does, but with members in order o. A nil order
// means sorted by name.
func (d *Doc) AppendOrdered(b []byte, n Node, o *Order) []byte {
	switch {
	case o == nil:
		return d.AppendJSON(b, n)
	case n.Kind() == Array:
		b = append(b, '[')
		for i, item := range d.Items(n) {
			if i > 0 {
				b = append(b, ',')
			}
			b = d.AppendOrdered(b, item, o)
		}
		return append(b, ']')
	case n.Kind() != Object:
		return d.AppendJSON(b, n)
	}
	b = append(b, '{')
	open, left := len(b), d.memberCount(n)
	for i := range o.Members {
		m := &o.Members[i]
		v := d.Member(n, m.Name)
		if v.Kind() == Absent {
			continue
		}
		left--
		b = append(appendQuoted(comma(b, open), m.Name), ':')
		b = d.AppendOrdered(b, v, m.Within)
	}
	if left == 0 {
		return append(b, '}')
	}
	for all := d.members(n); all.next(); {
		if !o.has(all.name) {
			b = append(appendQuoted(comma(b, open), all.name), ':')
			b = d.AppendOrdered(b, all.value, o.Others)
		}
	}
	return append(b, '}')
}

// NullEmpty replaces empty lists and maps in n by null where o says so. It changes only members that
// a schema declares.
func (d *Doc) NullEmpty(n Node, o *Order) {
	if o == nil || !o.HasNulls {
		return
	}
	if n.Kind() == Array {
		for _, item := range d.Items(n) {
			d.NullEmpty(item, o)
		}
		return
	}
	if n.Kind() != Object {
		return
	}
	shape := d.Shape(n)
	for i := range o.Members {
		m := &o.Members[i]
		v := d.Member(n, m.Name)
		if !m.EmptyIsNull || !d.isEmpty(v) {
			d.NullEmpty(v, m.Within)
		} else if shape != nil {
			if slot := shape.Slot(m.Name); slot >= 0 {
				d.SetSlot(n, slot, NullNode)
			}
		}
	}
	if o.Others == nil {
		return
	}
	for all := d.members(n); all.next(); {
		if !o.has(all.name) {
			d.NullEmpty(all.value, o.Others)
		}
	}
}

// isEmpty reports whether n is a list or object without items or members.
func (d *Doc) isEmpty(n Node) bool {
	return n.Kind() == Array && n.Len() == 0 || n.Kind() == Object && d.memberCount(n) == 0
}
