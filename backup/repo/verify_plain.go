package repo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
)

// checkPlain checks that the plain objects of a logical backup exist, and reads them.
func (b *backupCheck) checkPlain(ctx context.Context) error {
	if b.m.Form != Logical {
		return nil
	}
	there, err := b.plainThere(ctx)
	if err != nil {
		return err
	}
	if b.v.opt.Quick {
		return cmp.Or(b.eachPlain(ctx, there, func(File) bool { return true }), b.plainLeft(ctx, there))
	}
	look := func(File, io.Reader) error { return nil }
	before := len(b.v.out.Damages)
	if b.v.opt.Text != nil {
		given, err := b.v.opt.Text(ctx, b.m)
		if err == nil {
			look = given
		} else if !IsDamage(err) {
			return err
		}
		// A checksum finds most damage too, but not a wrongly written description.
		defer func() {
			if err != nil && len(b.v.out.Damages) == before {
				b.v.damage(b.name(), b.needs, err)
			}
		}()
	}
	feed := func(give func(File) bool) error { return b.eachPlain(ctx, there, give) }
	err = each(ctx, b.v.opt.Workers, feed, func(ctx context.Context, f File) error {
		name := PlainName(b.m.ID, f.Path)
		n, err := b.readPlain(ctx, f, look)
		b.v.progress(f.Object.Stored)
		b.v.mu.Lock()
		b.v.out.Objects++
		b.v.out.Plain += n
		b.v.mu.Unlock()
		return b.v.wrong(name, b.needs, damaged(name, err))
	})
	return cmp.Or(err, b.plainLeft(ctx, there))
}

// plainThere returns the existing plain objects, with their sizes.
func (b *backupCheck) plainThere(ctx context.Context) (*names, error) {
	there := new(names)
	for i, err := range b.v.r.store.List(ctx, plainPrefix+b.m.ID+"/") {
		if err != nil {
			return nil, err
		}
		there.add(i.Name, i.Size)
	}
	return there, nil
}

// eachPlain passes give the files whose plain objects exist at the right size, and records the
// others. It makes the sizes of looked-up objects negative.
func (b *backupCheck) eachPlain(ctx context.Context, there *names, give func(File) bool) error {
	going := true
	return b.files(ctx, func(_ uint32, f *File) error {
		if f.Object == nil || !going {
			return nil
		}
		if b.v.opt.Quick {
			b.v.out.Files++
		}
		name := PlainName(b.m.ID, f.Path)
		size := there.find(name)
		if size == nil {
			b.v.damage(name, b.needs, b.v.r.absent(name))
			return nil
		}
		if *size >= 0 {
			*size = -1 - *size
		}
		if is := -1 - *size; is != f.Object.Stored {
			b.v.damage(name, b.needs, fmt.Errorf("it has %d bytes instead of %d", is, f.Object.Stored))
			return nil
		}
		going = give(*f)
		return nil
	})
}

// plainLeft names the plain objects that eachPlain did not look up.
func (b *backupCheck) plainLeft(ctx context.Context, there *names) error {
	unasked := func(n named) bool { return n.n >= 0 }
	if b.broken || !slices.ContainsFunc(there.all, unasked) {
		return nil
	}
	for i, err := range b.v.r.store.List(ctx, plainPrefix+b.m.ID+"/") {
		if err != nil {
			return err
		}
		if size := there.find(i.Name); size != nil && *size >= 0 {
			b.v.left(i.Name, "the backup does not have it")
		}
	}
	return nil
}

// readPlain reads a plain object to its end and returns its size, decrypted.
func (b *backupCheck) readPlain(ctx context.Context, f File, look func(File, io.Reader) error) (int64, error) {
	in, err := b.v.r.OpenPlain(ctx, b.m, f)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	wrong := look(f, in)
	if _, err := io.Copy(io.Discard, in); err != nil {
		return 0, err // the object's own checksum tells more than its content
	}
	return f.Size, wrong
}
