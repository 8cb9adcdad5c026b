"""A stand-in for Stanford CoreNLP's two jars, by which the real program of SPICE runs where they are not.

It is no parser and measures nothing: words of a list are nouns or adjectives, an adjective belongs to the next noun,
and a noun to the last one by the preposition between. What SPICE makes of such a graph is SPICE's own.
"""

import subprocess
import zipfile

LEMMA = """package edu.stanford.nlp.ling;
public class IndexedWord {
  private final String lemma;
  public IndexedWord(String lemma) { this.lemma = lemma; }
  public String lemma() { return lemma; }
}"""
GRAPH = """package edu.stanford.nlp.semgraph;
import edu.stanford.nlp.ling.IndexedWord;
import java.util.*;
public class SemanticGraph {
  static final List<String> NOUNS = Arrays.asList(
      "man", "person", "dog", "cat", "couch", "sofa", "bike", "beach", "snow", "tie", "office");
  static final List<String> ADJECTIVES = Arrays.asList("red", "black", "small");
  static final List<String> PREPOSITIONS = Arrays.asList("in", "on", "with");
  public final List<Map<String, String>> nouns = new ArrayList<>(), attributes = new ArrayList<>(),
      relations = new ArrayList<>();
  public SemanticGraph(String text) {
    String adjective = null, preposition = null, last = null;
    for (String word : text.split(" ")) {
      if (ADJECTIVES.contains(word)) adjective = word;
      if (PREPOSITIONS.contains(word)) preposition = word;
      if (!NOUNS.contains(word)) continue;
      nouns.add(row("word", word, "", ""));
      if (adjective != null) attributes.add(row("obj", word, "adj", adjective));
      if (preposition != null && last != null) {
        Map<String, String> row = row("gov", last, "mod", word);
        row.put("reln", "nmod:" + preposition);
        relations.add(row);
      }
      last = word;
      adjective = preposition = null;
    }
  }
  private static Map<String, String> row(String a, String b, String c, String d) {
    Map<String, String> made = new HashMap<>();
    made.put(a, b);
    made.put(c, d);
    return made;
  }
}"""
MATCHER = """package edu.stanford.nlp.semgraph.semgrex;
import edu.stanford.nlp.ling.IndexedWord;
import java.util.*;
public class SemgrexMatcher {
  private final Iterator<Map<String, String>> rows;
  private Map<String, String> row;
  SemgrexMatcher(List<Map<String, String>> rows) { this.rows = rows.iterator(); }
  public boolean find() {
    if (!rows.hasNext()) return false;
    row = rows.next();
    return true;
  }
  public boolean findNextMatchingNode() { return find(); }
  public IndexedWord getNode(String name) { return new IndexedWord(row.get(name)); }
  public String getRelnString(String name) { return row.get(name); }
}"""
PATTERN = """package edu.stanford.nlp.semgraph.semgrex;
import edu.stanford.nlp.semgraph.SemanticGraph;
import java.util.*;
public class SemgrexPattern {
  private final String text;
  private SemgrexPattern(String text) { this.text = text; }
  public static SemgrexPattern compile(String text) { return new SemgrexPattern(text); }
  public SemgrexMatcher matcher(SemanticGraph graph) {
    if (text.equals("{tag:/NNP?S?/}=word")) return new SemgrexMatcher(graph.nouns);
    if (text.endsWith("{}=adj")) return new SemgrexMatcher(graph.attributes);
    if (text.endsWith("=reln {}=mod")) return new SemgrexMatcher(graph.relations);
    return new SemgrexMatcher(new ArrayList<>());
  }
}"""
SENTENCE = """package edu.stanford.nlp.pipeline;
import edu.stanford.nlp.ling.CoreAnnotations;
import edu.stanford.nlp.semgraph.SemanticGraph;
import java.util.*;
public class Annotation implements edu.stanford.nlp.util.CoreMap {
  private final String text;
  public Annotation(String text) { this.text = text; }
  public Object get(Class key) {
    return key == CoreAnnotations.SentencesAnnotation.class ? Arrays.asList(this) : new SemanticGraph(text);
  }
}"""
EDGES = """package edu.stanford.nlp.graph;
import edu.stanford.nlp.util.MapFactory;
import java.util.*;
public class DirectedMultiGraph<V, E> {
  private final Set<V> vertices = new LinkedHashSet<>();
  private final List<E> edges = new ArrayList<>();
  public DirectedMultiGraph(MapFactory<V, Map<V, List<E>>> outer, MapFactory<V, List<E>> inner) {}
  public Set<V> getAllVertices() { return vertices; }
  public List<E> getAllEdges() { return edges; }
  public boolean addVertex(V vertex) { return vertices.add(vertex); }
  public void add(V source, V target, E edge) {
    vertices.add(source);
    vertices.add(target);
    edges.add(edge);
  }
}"""
ENHANCER = """package edu.stanford.nlp.scenegraph;
import edu.stanford.nlp.semgraph.SemanticGraph;
public class SemanticGraphEnhancer {
  public static void processQuanftificationModifiers(SemanticGraph graph) {}
  public static void collapseCompounds(SemanticGraph graph) {}
  public static void collapseParticles(SemanticGraph graph) {}
  public static void resolvePronouns(SemanticGraph graph) {}
}"""
PIPELINE = """package edu.stanford.nlp.pipeline;
public class StanfordCoreNLP {
  public StanfordCoreNLP(java.util.Properties properties) {}
  public void annotate(Iterable<Annotation> all) {}
}"""
SOURCES = {
    "ling/IndexedWord": LEMMA,
    "ling/CoreAnnotations": "package edu.stanford.nlp.ling;\n"
    "public class CoreAnnotations { public static class SentencesAnnotation {} }",
    "semgraph/SemanticGraphCoreAnnotations": "package edu.stanford.nlp.semgraph;\n"
    "public class SemanticGraphCoreAnnotations {\n"
    "  public static class CollapsedCCProcessedDependenciesAnnotation {} }",
    "semgraph/SemanticGraph": GRAPH,
    "semgraph/semgrex/SemgrexMatcher": MATCHER,
    "semgraph/semgrex/SemgrexPattern": PATTERN,
    "pipeline/Annotation": SENTENCE,
    "pipeline/StanfordCoreNLP": PIPELINE,
    "graph/DirectedMultiGraph": EDGES,
    "scenegraph/SemanticGraphEnhancer": ENHANCER,
    "util/CoreMap": "package edu.stanford.nlp.util;\npublic interface CoreMap { Object get(Class key); }",
    "util/MapFactory": "package edu.stanford.nlp.util;\npublic abstract class MapFactory<K, V> {\n"
    "  public static <K, V> MapFactory<K, V> hashMapFactory() { return null; } }",
}
ENGINE = """package standin;
import javax.script.*;
import java.util.*;
public class Engine extends AbstractScriptEngine {
  public Object eval(String script, ScriptContext context) { put("result", get("jsonString")); return null; }
  public Object eval(java.io.Reader script, ScriptContext context) { return null; }
  public Bindings createBindings() { return new SimpleBindings(); }
  public ScriptEngineFactory getFactory() { return null; }
  public static class Factory implements ScriptEngineFactory {
    public String getEngineName() { return "stand-in"; }
    public String getEngineVersion() { return "1"; }
    public List<String> getExtensions() { return new ArrayList<>(); }
    public List<String> getMimeTypes() { return new ArrayList<>(); }
    public List<String> getNames() { return Arrays.asList("JavaScript"); }
    public String getLanguageName() { return "JavaScript"; }
    public String getLanguageVersion() { return "1"; }
    public Object getParameter(String key) { return null; }
    public String getMethodCallSyntax(String o, String m, String... a) { return ""; }
    public String getOutputStatement(String text) { return ""; }
    public String getProgram(String... lines) { return ""; }
    public ScriptEngine getScriptEngine() { return new Engine(); }
  }
}"""


def make_corenlp(target, folder):
    """Compile the stand-in for Stanford CoreNLP into a jar, by way of a folder."""
    _make({f"edu/stanford/nlp/{name}": text for name, text in SOURCES.items()}, {}, target, folder)


def make_engine(target, folder):
    """Compile a script engine that gives back the text it was to write prettier, into a jar."""
    services = {"META-INF/services/javax.script.ScriptEngineFactory": "standin.Engine$Factory\n"}
    _make({"standin/Engine": ENGINE}, services, target, folder)


def _make(sources, more, target, folder):
    files = []
    for name, text in sources.items():
        files.append(folder / f"{name}.java")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_text(text)
    made = folder / "classes"
    command = ["javac", "--release", "8", "-nowarn", "-Xlint:none", "-d", str(made), *map(str, files)]
    subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(target, "w") as jar:
        for path in sorted(made.rglob("*.class")):
            jar.write(path, path.relative_to(made))
        for name, text in more.items():
            jar.writestr(name, text)
