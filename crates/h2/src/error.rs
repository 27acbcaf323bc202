//! Error codes (RFC 9113 §7), and the rules that a frame or a field block can break.

/// A code of RST_STREAM or GOAWAY. A peer may send codes that are not in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(4);
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    pub const CANCEL: ErrorCode = ErrorCode(8);
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(10);
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
}

/// The broken rule. All are errors of the connection: RFC 9113 §5.4.1 allows an endpoint to treat the errors of a
/// stream as such, and no correct peer makes one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameError {
    /// The first frame is not SETTINGS (§3.4).
    NoSettings,
    /// More than 16,384 bytes, which is the default of SETTINGS_MAX_FRAME_SIZE (§4.2).
    TooLarge,
    /// A length that is not valid for the type of the frame (§4.2).
    Length,
    /// A stream 0 where a stream is required, or a stream where 0 is required (§6).
    Stream,
    /// More padding than payload (§6.1 and §6.2).
    Padding,
    /// Another frame between HEADERS and its last CONTINUATION (§6.10).
    Interrupted,
    /// CONTINUATION without HEADERS (§6.10).
    Continuation,
    /// A field block of too many bytes or frames (§10.5.1).
    BlockTooLarge,
    /// PUSH_PROMISE: clients cannot send it (§8.4), and a client without server push must reject it (§6.6).
    PushPromise,
    /// A value of SETTINGS that is out of range (§6.5.2).
    Setting,
    /// SETTINGS_INITIAL_WINDOW_SIZE above 2^31 - 1 (§6.5.2).
    InitialWindow,
    /// WINDOW_UPDATE with an increment of 0 (§6.9).
    Increment,
    /// A stream that depends on itself (RFC 7540 §5.3.1).
    Dependency,
}

impl FrameError {
    /// The code of the GOAWAY frame.
    pub const fn code(self) -> ErrorCode {
        match self {
            FrameError::TooLarge | FrameError::Length => ErrorCode::FRAME_SIZE_ERROR,
            FrameError::BlockTooLarge => ErrorCode::ENHANCE_YOUR_CALM,
            FrameError::InitialWindow => ErrorCode::FLOW_CONTROL_ERROR,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }

    /// One sentence without a full stop, for the log.
    pub const fn sentence(self) -> &'static str {
        match self {
            FrameError::NoSettings => "the first frame is not SETTINGS",
            FrameError::TooLarge => "a frame is larger than 16384 bytes",
            FrameError::Length => "a frame has a length that is not valid for its type",
            FrameError::Stream => "a frame has a stream that is not valid for its type",
            FrameError::Padding => "a frame has more padding than payload",
            FrameError::Interrupted => "there is another frame within a field block",
            FrameError::Continuation => "there is a CONTINUATION frame outside a field block",
            FrameError::BlockTooLarge => "a field block has too many bytes or frames",
            FrameError::PushPromise => "a client sends PUSH_PROMISE",
            FrameError::Setting => "a value of SETTINGS is out of range",
            FrameError::InitialWindow => "SETTINGS_INITIAL_WINDOW_SIZE exceeds 2^31 - 1",
            FrameError::Increment => "a WINDOW_UPDATE frame has an increment of 0",
            FrameError::Dependency => "a stream depends on itself",
        }
    }
}

/// What is wrong with a field block (RFC 7541).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HpackError {
    /// The block is not valid. The table is lost, and so is the connection (§2.3.3).
    Malformed,
    /// The bytes end within a field. Of a whole block, this is malformed.
    Incomplete,
    /// More than SETTINGS_MAX_HEADER_LIST_SIZE. The table is valid: this is an error of the stream.
    ListTooLarge,
}

impl HpackError {
    /// The error at the end of a whole block.
    pub(crate) const fn at_end(self) -> HpackError {
        match self {
            HpackError::Incomplete => HpackError::Malformed,
            error => error,
        }
    }
}

/// Why a connection ends: the code of the GOAWAY frame, and the rule for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionError {
    /// The first bytes are not the preface of a client (RFC 9113 §3.4).
    Preface,
    Frame(FrameError),
    /// A field block cannot be decoded (§4.3).
    Compression,
    /// A frame on a stream that has not been opened (§5.1).
    Idle,
    /// HEADERS on a stream with an even number, or with a number below that of an earlier one (§5.1.1).
    StreamNumber,
    /// HEADERS on a stream that has ended (§5.1).
    Closed,
    /// DATA beyond the connection's window (§6.9.1).
    Window,
    /// A window above 2^31 - 1 (§6.9.1 and §6.9.2).
    WindowOverflow,
    /// More streams were reset than the limit allows (§10.5).
    TooManyResets,
    /// More frames without use than the limit allows (§10.5).
    Flood,
    /// A new stream from a client that has not acknowledged SETTINGS for too long (§6.5.3).
    SettingsTimeout,
}

impl ConnectionError {
    /// The code of the GOAWAY frame.
    pub const fn code(self) -> ErrorCode {
        match self {
            ConnectionError::Frame(error) => error.code(),
            ConnectionError::Compression => ErrorCode::COMPRESSION_ERROR,
            ConnectionError::Closed => ErrorCode::STREAM_CLOSED,
            ConnectionError::Window | ConnectionError::WindowOverflow => ErrorCode::FLOW_CONTROL_ERROR,
            ConnectionError::TooManyResets | ConnectionError::Flood => ErrorCode::ENHANCE_YOUR_CALM,
            ConnectionError::SettingsTimeout => ErrorCode::SETTINGS_TIMEOUT,
            ConnectionError::Preface | ConnectionError::Idle | ConnectionError::StreamNumber => {
                ErrorCode::PROTOCOL_ERROR
            }
        }
    }

    /// One sentence without a full stop, for the log.
    pub const fn sentence(self) -> &'static str {
        match self {
            ConnectionError::Preface => "the connection does not begin with the preface of HTTP/2",
            ConnectionError::Frame(error) => error.sentence(),
            ConnectionError::Compression => "a field block cannot be decoded",
            ConnectionError::Idle => "there is a frame on a stream that was not opened",
            ConnectionError::StreamNumber => "a new stream has an even number, or a number that is too low",
            ConnectionError::Closed => "there is a HEADERS frame on a stream that has ended",
            ConnectionError::Window => "the client sends more than the connection's window allows",
            ConnectionError::WindowOverflow => "a flow-control window exceeds 2^31 - 1",
            ConnectionError::TooManyResets => "too many streams were reset",
            ConnectionError::Flood => "the client sends too many frames without use",
            ConnectionError::SettingsTimeout => "the client does not acknowledge SETTINGS",
        }
    }
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> ConnectionError {
        ConnectionError::Frame(error)
    }
}
