<?php
// Finds the requested path as WordPress does (WP::parse_request), and prints it.
$pathinfo = $_SERVER['PATH_INFO'] ?? '';
list($pathinfo) = explode('?', $pathinfo);
$pathinfo = str_replace('%', '%25', $pathinfo);
list($req_uri) = explode('?', $_SERVER['REQUEST_URI']);
$home_path = trim(HOME_PATH, '/');
$home_regex = sprintf('|^%s|i', preg_quote($home_path, '|'));
$req_uri = str_replace($pathinfo, '', $req_uri);
$req_uri = trim(preg_replace($home_regex, '', trim($req_uri, '/')), '/');
$pathinfo = trim(preg_replace($home_regex, '', trim($pathinfo, '/')), '/');
$asked = $pathinfo !== '' && !preg_match('|^.*index.php$|', $pathinfo) ? $pathinfo : $req_uri;
if ($asked === 'index.php') {
    $asked = '';
}
if ($asked === 'gone') {
    http_response_code(404);
}
header('Content-Type: text/plain');
ksort($_GET);
echo 'wordpress ', $_SERVER['REQUEST_METHOD'], ' [', $asked, '] ', json_encode($_GET), ' ', json_encode($_POST);
