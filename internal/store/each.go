package store

// This file lists items page by page.

import "context"

// eachPage is the number of items in a page.
const eachPage = 500

// Each calls fn for every item under a prefix, all at one revision (0: the newest), in the order of
// the keys, until fn returns an error. It returns the revision. If the listing takes longer than
// old states are kept, it fails with ErrCompacted.
func Each(ctx context.Context, s Store, prefix string, rev int64, fn func(*Item) error) (int64, error) {
	for o := (ListOptions{Limit: eachPage, Rev: rev}); ; {
		page, err := s.List(ctx, prefix, o)
		if err != nil {
			return 0, err
		}
		for i := range page.Items {
			if err := fn(&page.Items[i]); err != nil {
				return 0, err
			}
		}
		if !page.More {
			return page.Rev, nil
		}
		o.From, o.Rev = page.Items[len(page.Items)-1].Key+"\x00", page.Rev
	}
}
