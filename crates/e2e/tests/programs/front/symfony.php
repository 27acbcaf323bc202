<?php
// Finds the requested path as Symfony and Laravel do (Request::prepareBaseUrl and preparePathInfo), and prints it.
$filename = basename($_SERVER['SCRIPT_FILENAME']);
$base = basename($_SERVER['SCRIPT_NAME']) === $filename ? $_SERVER['SCRIPT_NAME'] : '';
$uri = $_SERVER['REQUEST_URI'];
if (strpos(rawurldecode($uri), $base) === 0) {
    // The URL names the front controller.
} elseif (strpos(rawurldecode($uri), rtrim(dirname($base), '/') . '/') === 0) {
    $base = rtrim(dirname($base), '/');
} else {
    $base = '';
}
$path = explode('?', $uri, 2)[0];
$path = $base === '' ? $path : substr($path, strlen($base));
$path = $path === '' || $path === false ? '/' : $path;
header('Content-Type: text/plain');
if ($path === '/teapot') {
    http_response_code(418);
}
echo 'symfony ', $_SERVER['REQUEST_METHOD'], ' [', $base, '] ', rawurldecode($path), ' ',
    $_SERVER['QUERY_STRING'], ' ', file_get_contents('php://input');
