package Taipan;

=head1 NAME

Taipan - a CGI program, made persistent by one line

=head1 SYNOPSIS

    use Taipan;

    while (Taipan::accept()) {
        print "Content-Type: text/plain\r\n\r\nHello, $ENV{REMOTE_ADDR}!\n";
    }

=head1 DESCRIPTION

Started by a web server with a listening socket as descriptor 0, the program serves one request after the
other by FastCGI. Started in any other way it runs its body once, as a CGI program.

In a request, %ENV has its variables, STDIN its body, STDOUT its response and STDERR the server's log.
Descriptors 0, 1 and 2 do not belong to the request: the output of child processes does not reach the
client, unless it goes through pipes. An uncaught C<die> ends the program, as it ends a CGI program; the
server starts it again.

Perl 5.14 or later, on Linux, with its core modules. One request at a time: for more at a time, let the
server start more processes.

=head2 Taipan::accept()

Waits for the next request; false when there will be none, and the program should end.

=head2 Taipan::aborted()

Whether the client has left the current request, so that output fails. Does not wait.

=cut

use strict;
use warnings;

use Fcntl qw(F_GETFD F_GETFL F_SETFD F_SETFL FD_CLOEXEC O_NONBLOCK);
use IO::Poll qw(POLLIN);
use Errno qw(EAGAIN ECONNABORTED EINTR EPIPE);
use Socket qw(MSG_NOSIGNAL SHUT_WR SOL_SOCKET SO_ACCEPTCONN);

use constant {
    BEGIN_REQUEST => 1, ABORT => 2, END_REQUEST => 3, PARAMS => 4, BODY_IN => 5, ANSWER_OUT => 6, LOG_OUT => 7,
    GET_VALUES => 9, VALUES => 10, UNKNOWN => 11,
    RESPONDER => 1, AUTHORIZER => 2,
    COMPLETE => 0, CANNOT_MULTIPLEX => 1, UNKNOWN_ROLE => 3,
    MAX_PARAMS => 1 << 20, MAX_CONTENT => 65535, BUFFERED => 32768, IDLE_CONNECTIONS => 16,
};

# The part of a request that is expected next.
use constant { NONE => 0, NAMES => 1, BODY => 2, ANSWER => 3 };

my %known = (FCGI_MAX_CONNS => 1, FCGI_MAX_REQS => 1, FCGI_MPXS_CONNS => 0);

my $mode = 'not started';    # then cgi, fastcgi, over
my $pid;
my $listener;
my @idle;                    # idle kept connections,
my $connection;              # and the one with the current request
my $phase = NONE;
my ($id, $role, $keep, $aborted, $broken, $finishing);
my ($received, $at) = ('', 0);    # received bytes, and the position in them
my ($content, $padding) = (0, 0); # missing bytes of the current record
my $out = '';                # records to send
my $params = '';
my %base_environment;
my $layers_of_body = '';

sub accept {
    if ($mode eq 'not started') {
        $mode = start();
        return 1 if $mode eq 'cgi';
    }
    if ($mode ne 'fastcgi') {
        $mode = 'over';
        return 0;
    }
    finish(0);
    while (1) {
        if ($connection && $phase == NONE && $at == length $received && $content + $padding == 0) {
            push @idle, $connection;
            undef $connection;
        }
        if (!$connection) {
            $broken = 0;
            wait_for_bytes() or return 0;
        }
        next_record();
        last if $phase >= BODY && set_environment();
        close_connection() if $broken || $phase >= BODY;
    }
    # Layers that binmode has set before are kept.
    my ($of_output, $of_log) = map { join ':', PerlIO::get_layers($_) } *STDOUT, *STDERR;
    tie *STDIN, 'Taipan::Body', $layers_of_body;
    tie *STDOUT, 'Taipan::Output', ANSWER_OUT, BUFFERED, $of_output;
    tie *STDERR, 'Taipan::Output', LOG_OUT, 0, $of_log;
    return 1;
}

sub aborted {
    return 0 if $mode ne 'fastcgi';
    # An abort after an unread body record is not detected.
    while ($phase >= BODY && $content == 0 && !$aborted && !$broken) {
        last if $at == length $received && !readable(0, $connection);
        next_record();
    }
    return $aborted || $broken;
}

# Ends the current request, if there is one.
sub finish {
    my ($exit) = @_;
    return if $phase == NONE;
    $finishing = 1;
    for my $output (tied *STDOUT, tied *STDERR) {
        $output->FLUSH if $output;
    }
    $finishing = 0;
    # Between two requests the handles are the original ones.
    untie *STDIN;
    untie *STDOUT;
    untie *STDERR;
    record(ANSWER_OUT, $id, '');
    end_request($id, $exit, COMPLETE);
    flush();
    $phase = NONE;
    close_connection() if $broken || !$keep;
}

# Bytes out.

# Returns whether it could be sent.
sub write_stream {
    my ($kind, $bytes) = @_;
    if ($aborted || !$finishing && aborted()) {
        $! = EPIPE;
        return 0;
    }
    for (my $from = 0; $from < length $bytes; $from += MAX_CONTENT) {
        record($kind, $id, substr $bytes, $from, MAX_CONTENT);
    }
    # The last output is sent together with the end of the request.
    flush() unless $finishing;
    return !$broken;
}

sub record {
    my ($kind, $id, $bytes) = @_;
    $out .= pack('CCnnCx', 1, $kind, $id, length $bytes, 0) . $bytes;
}

sub end_request {
    my ($id, $exit, $ending) = @_;
    record(END_REQUEST, $id, pack 'NCx3', $exit, $ending);
}

sub flush {
    while (length $out && !$broken) {
        my $sent = send $connection, $out, MSG_NOSIGNAL;
        if (defined $sent) {
            substr $out, 0, $sent, '';
        }
        elsif ($! != EINTR) {
            $broken = 1;
        }
    }
    $out = '';
}

# Bytes in.

# Whether the buffer has at least one byte; reads if it is empty.
sub fill {
    return 1 if $at < length $received;
    ($received, $at) = ('', 0);
    return 0 if $broken;
    my $got;
    do { $got = sysread $connection, $received, 65536 } until defined $got || $! != EINTR;
    $broken = 1 unless $got;
    return !$broken;
}

# Exactly this many bytes, or undef.
sub take {
    my ($size) = @_;
    my $taken = '';
    while (length $taken < $size) {
        fill() or return undef;
        my $piece = substr $received, $at, $size - length $taken;
        $at += length $piece;
        $taken .= $piece;
    }
    return $taken;
}

sub take_content {
    my $size = $content;
    $content = 0;
    return take($size);
}

# The next bytes of the body; empty at its end.
sub take_body {
    my ($size) = @_;
    next_record() while $phase == BODY && $content == 0 && !$broken;
    return '' if $phase != BODY || !fill();
    $size = $content if $size > $content;
    my $piece = substr $received, $at, $size;
    $at += length $piece;
    $content -= length $piece;
    return $piece;
}

# Reads the next record. The content of a body record is left in the buffer.
sub next_record {
    my $rest = $content + $padding;
    ($content, $padding) = (0, 0);
    my $header;
    if (!defined take($rest) || !defined($header = take(8))) {
        $broken = 1;
        return;
    }
    (my $version, my $kind, my $of, $content, $padding) = unpack 'CCnnC', $header;
    my $ours = $phase != NONE && $of == $id;
    if ($version != 1) {
        $broken = 1;
    }
    elsif ($of == 0 && $kind == GET_VALUES) {
        my %requested = @{ pairs(take_content()) || [] };
        my @answer = map { pack('CC', length, 1) . $_ . $known{$_} } grep { exists $requested{$_} } sort keys %known;
        record(VALUES, 0, join '', @answer);
        flush();
    }
    elsif ($of == 0) {
        take_content();
        record(UNKNOWN, 0, pack 'Cx7', $kind);
        flush();
    }
    elsif ($kind == BEGIN_REQUEST) {
        begin($of, $ours);
    }
    elsif ($ours && $kind == ABORT && $phase == NAMES) {
        refuse($of, COMPLETE);
    }
    elsif ($ours && $kind == ABORT) {
        ($aborted, $phase) = (1, ANSWER);
    }
    elsif ($ours && $kind == PARAMS && $phase == NAMES) {
        # An authorizer has no body, and no record that ends it.
        $phase = $role == RESPONDER ? BODY : ANSWER if $content == 0;
        $params .= take_content() // '';
        $broken = 1 if length $params > MAX_PARAMS;
    }
    elsif ($ours && $kind == BODY_IN && $phase == BODY && $content == 0) {
        $phase = ANSWER;
    }
    elsif (!$ours || $kind != BODY_IN || $phase != BODY) {
        # A record of an ended request: skipped, so that it is not read as a body.
        take_content();
    }
}

sub begin {
    my ($of, $ours) = @_;
    my $body = $content == 8 && !$ours ? take_content() : undef;
    if (!defined $body) {
        $broken = 1;
        return;
    }
    my ($requested, $flags) = unpack 'nC', $body;
    if ($phase != NONE) {
        end_request($of, 0, CANNOT_MULTIPLEX);
        flush();
        return;
    }
    $keep = $flags & 1;
    if ($requested != RESPONDER && $requested != AUTHORIZER) {
        refuse($of, UNKNOWN_ROLE);
        return;
    }
    ($id, $role, $phase, $aborted, $params) = ($of, $requested, NAMES, 0, '');
}

# Ends a request that the program does not see.
sub refuse {
    my ($of, $ending) = @_;
    end_request($of, 0, $ending);
    flush();
    $phase = NONE;
    close_connection() unless $keep;
}

# Requests.

# Names and values in turn, or undef if a pair is cut.
sub pairs {
    my ($bytes) = @_;
    return undef unless defined $bytes;
    my ($from, @found) = (0);
    while ($from < length $bytes) {
        my @lengths;
        for (1, 2) {
            my $length = $from < length $bytes ? ord substr $bytes, $from, 1 : return undef;
            my $size = $length < 128 ? 1 : 4;
            return undef if $from + $size > length $bytes;
            $length = unpack('N', substr $bytes, $from, 4) & 0x7fffffff if $size == 4;
            push @lengths, $length;
            $from += $size;
        }
        for my $length (@lengths) {
            return undef if $length > length($bytes) - $from;
            push @found, substr $bytes, $from, $length;
            $from += $length;
        }
    }
    return \@found;
}

sub set_environment {
    my $pairs = pairs($params) or return 0;
    %ENV = (%base_environment, @$pairs);
    # The Proxy field of a client must not become HTTP_PROXY (httpoxy).
    delete $ENV{HTTP_PROXY};
    return 1;
}

# The first of these handles that is readable within this many milliseconds.
sub readable {
    my ($milliseconds, @handles) = @_;
    my $poll = IO::Poll->new;
    $poll->mask($_ => POLLIN) for @handles;
    return undef if $poll->poll($milliseconds < 0 ? undef : $milliseconds / 1000) <= 0;
    return (grep { $poll->events($_) } @handles)[0];
}

# Waits until a connection is readable.
sub wait_for_bytes {
    while (1) {
        my $accepts = @idle < IDLE_CONNECTIONS;
        my $ready = readable(-1, @idle, $accepts ? $listener : ());
        if (!$ready) {
            next if $! == EINTR;
            return 0;
        }
        if ($ready != $listener) {
            # In the order of arrival, so that none waits forever.
            @idle = grep { $_ != $ready } @idle;
            $connection = $ready;
            return 1;
        }
        if (CORE::accept(my $new, $listener)) {
            fcntl $new, F_SETFD, FD_CLOEXEC;
            # A new connection waits like the others, because its first bytes may come late.
            push @idle, $new;
        }
        # Another process may have accepted it.
        elsif ($! != EAGAIN && $! != EINTR && $! != ECONNABORTED) {
            return 0;
        }
    }
}

sub close_connection {
    return unless $connection;
    # Closing with unread bytes sends RST, which may destroy the last output. At most two seconds.
    if (!$broken && shutdown $connection, SHUT_WR) {
        for (1 .. 256) {
            last unless readable(2000, $connection) && sysread $connection, my $nothing, 65536;
        }
    }
    close $connection;
    undef $connection;
    ($phase, $received, $at, $content, $padding, $out) = (NONE, '', 0, 0, 0, '');
}

sub start {
    my $listens = getsockopt STDIN, SOL_SOCKET, SO_ACCEPTCONN;
    return 'cgi' unless defined $listens && unpack 'i', $listens;
    $layers_of_body = join ':', PerlIO::get_layers(*STDIN);
    # Moved away, so that child processes do not inherit the socket.
    open $listener, '+<&', \*STDIN or return 'over';
    fcntl $listener, F_SETFD, FD_CLOEXEC;
    open STDIN, '<', '/dev/null' or return 'over';
    # Another process may have accepted the connection that woke this one.
    fcntl $listener, F_SETFL, fcntl($listener, F_GETFL, 0) | O_NONBLOCK;
    %base_environment = %ENV;
    $pid = $$;
    return 'fastcgi';
}

END {
    # A child of the program that exits must not end the request.
    if ($mode eq 'fastcgi' && $$ == $pid) {
        $keep = 0;
        finish($?);
    }
}

# STDIN in a request.
package Taipan::Body;

sub TIEHANDLE {
    my ($class, $layers) = @_;
    return bless { buffer => '', layer => $layers }, $class;
}

# Fills the buffer to at least this many bytes, unless the body has fewer.
sub fill {
    my ($self, $size) = @_;
    while (length $self->{buffer} < $size) {
        my $piece = Taipan::take_body(65536);
        return if $piece eq '';
        $self->{buffer} .= $piece;
    }
}

sub READ {
    my ($self, undef, $size, $offset) = @_;
    my $to = \$_[1];
    $$to //= '';
    $offset //= 0;
    $offset += length $$to if $offset < 0;
    $$to .= "\0" x ($offset - length $$to) if $offset > length $$to;
    $self->fill($size);
    my $taken = substr $self->{buffer}, 0, $size, '';
    substr $$to, $offset, length($$to) - $offset, $taken;
    return length $taken;
}

sub READLINE {
    my ($self) = @_;
    if (wantarray) {
        my @lines;
        while (defined(my $line = $self->line)) {
            push @lines, $line;
        }
        return @lines;
    }
    return $self->line;
}

# The next line, separated by $/; undef at the end.
sub line {
    my ($self) = @_;
    my $size;
    if (!defined $/) {
        1 while $self->more;
    }
    elsif (ref $/) {
        $self->fill(${$/});
        $size = ${$/};
    }
    else {
        # An empty $/ reads paragraphs, separated by empty lines.
        my $end = $/ eq '' ? "\n\n" : $/;
        my ($from, $found) = (0);
        while (($found = index $self->{buffer}, $end, $from) < 0) {
            $from = length($self->{buffer}) - length($end) + 1;
            $from = 0 if $from < 0;
            last unless $self->more;
        }
        $size = $found + length $end if $found >= 0;
    }
    $size = length $self->{buffer} if !defined $size || $size > length $self->{buffer};
    my $line = substr $self->{buffer}, 0, $size, '';
    return undef if $line eq '';
    utf8::decode($line) if $self->{layer} =~ /utf-?8/i;
    return $line;
}

sub more {
    my ($self) = @_;
    my $had = length $self->{buffer};
    $self->fill($had + 1);
    return length $self->{buffer} > $had;
}

sub GETC {
    my ($self) = @_;
    $self->fill(1);
    return length $self->{buffer} ? substr $self->{buffer}, 0, 1, '' : undef;
}

sub EOF {
    my ($self) = @_;
    $self->fill(1);
    return $self->{buffer} eq '';
}

sub BINMODE { $_[0]{layer} = $_[1] // ''; return 1 }
sub FILENO  { return 0 }
sub CLOSE   { return 1 }

# STDOUT and STDERR in a request.
package Taipan::Output;

sub TIEHANDLE {
    my ($class, $kind, $buffered, $layers) = @_;
    return bless { kind => $kind, buffered => $buffered, buffer => '', layer => $layers }, $class;
}

sub PRINT {
    my $self = shift;
    my $text = join($, // '', @_) . ($\ // '');
    return $self->put($text);
}

sub PRINTF {
    my $self = shift;
    my $format = shift;
    return $self->put(sprintf $format, @_);
}

sub WRITE {
    my ($self, $bytes, $size, $offset) = @_;
    $bytes = substr $bytes, $offset // 0, $size // length $bytes;
    return $self->put($bytes) && $self->FLUSH ? length $bytes : undef;
}

sub put {
    my ($self, $text) = @_;
    # As in perl: characters that fit are written as bytes, unless a layer encodes them.
    utf8::encode($text) if $self->{layer} =~ /utf-?8/i || !utf8::downgrade($text, 1);
    $self->{buffer} .= $text;
    return 1 if length $self->{buffer} < $self->{buffered} && !$|;
    return $self->FLUSH;
}

sub FLUSH {
    my ($self) = @_;
    my $bytes = $self->{buffer};
    $self->{buffer} = '';
    return $bytes eq '' || Taipan::write_stream($self->{kind}, $bytes);
}

sub BINMODE { $_[0]{layer} = $_[1] // ''; return 1 }
sub FILENO  { return $_[0]{kind} == Taipan::LOG_OUT() ? 2 : 1 }
sub CLOSE   { return $_[0]->FLUSH }

1;
